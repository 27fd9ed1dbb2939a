"""Learning a sequence of classification tasks: the loop of `factlearn/training.py` with a head a task."""

import shutil
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from factlearn.classification.config import ClassifyConfig
from factlearn.classification.data import (
    ClassStage,
    check_network,
    example_inputs,
    importance_batches,
    importance_head,
    open_sequence,
)
from factlearn.classification.runs import ClassRun
from factlearn.data.classes import ClassSequence
from factlearn.errors import ImageError
from factlearn.evaluation.classes import Predictions, nearest_mean_accuracy, predict_task
from factlearn.learning.runs import load_tensors, save_tensors
from factlearn.learning.training import check_same_run, derived_seed, learn_stage, make_fabric, reused
from factlearn.lifelong.allocator import keep_freed_memory
from factlearn.lifelong.memory import bytes_of
from factlearn.lifelong.registry import make_strategy
from factlearn.lifelong.strategy import Strategy
from factlearn.models.classifier import MultiHeadClassifier, build_classifier
from factlearn.models.inputs import in_order
from factlearn.progress import say


def train(config: ClassifyConfig, out: Path | str, *, resume: bool = False, stop_after: int | None = None) -> ClassRun:
    """Learn the tasks that the config describes, one after the other, and leave a run directory.

    Raises:
        FactlearnError: if the config cannot be carried out, before anything is written where possible.
    """
    out = Path(out)
    keep_freed_memory()
    sequence = open_sequence(config.data, config.seed)
    values = check_network(config, sequence)
    for number in range(len(sequence.tasks)):
        importance_head(config, sequence, number)
    torch.manual_seed(derived_seed(config.seed, "initial weights"))
    model = build_classifier(config.model, [len(task.classes) for task in sequence.tasks], values)
    if resume:
        run = ClassRun.open(out)
        check_same_run(run, config, sequence.fingerprint)
    else:
        with ClassRun.beginning(out, config) as run:
            run.save_tasks(sequence, values)
            save_tensors(dict(model.prefix.state_dict()), run.folder / "frozen.safetensors")
            run.describe(data=sequence.name, data_fingerprint=sequence.fingerprint, threads=torch.get_num_threads())
    try:
        learn_tasks(run, model, sequence, stop_after=stop_after)
    except ImageError:
        if not resume and not run.metrics():
            shutil.rmtree(run.folder)  # nothing was learned; the next try may use the same place
        raise
    return run


def train_or_reuse(config: ClassifyConfig, folder: Path) -> ClassRun:
    """The run in the folder if it is finished, gone on with if it was interrupted, learned anew otherwise."""
    return reused(ClassRun, train, config, folder)


def learn_tasks(
    run: ClassRun, model: MultiHeadClassifier, sequence: ClassSequence, *, stop_after: int | None = None
) -> None:
    """Learn the stages that are not finished yet, of the first `stop_after` if that is given."""
    config = run.config
    fabric = make_fabric(config.device)
    strategy = make_strategy(config.strategy)
    stages = strategy.stages(range(len(sequence.tasks)))
    until = len(stages) if stop_after is None else min(stop_after, len(stages))
    finished = run.finished_stages()
    if finished >= until:
        say(f"{run.folder} has learned that already.")
        return
    if finished:
        folder = run.stage_folder(finished)
        model.suffix.load_state_dict(load_tensors(folder / "model.safetensors"))
        strategy.load_state(load_tensors(folder / "strategy.safetensors"))
        say(f"{finished} of {len(stages)} stages are finished already.")
    model.to(fabric.device)
    for number, stage in enumerate(stages[finished:until], finished + 1):
        started = time.monotonic()
        data = ClassStage.of(config, model, [(task, sequence.tasks[task]) for task in stage])
        names = " + ".join(sequence.tasks[task].name for task in stage)
        say(f"Stage {number} of {len(stages)}: {names}, {len(data.inputs)} images.")
        model.suffix.fit(in_order(data.inputs, config.evaluation.batch_size))
        before = nearest_means(config, model, sequence, range(len(sequence.tasks)) if number == 1 else stage)
        head = model.suffix.learn_heads(stage)
        measured = model.suffix.of_task(importance_head(config, sequence, stage[-1]))
        importance = partial(importance_batches, config, model, sequence, stage[-1], data)
        learner, memory = learn_stage(
            run, fabric, model, strategy, data, number, importance, output="scores", head=head, measured=measured
        )
        strategy.after_task(learner)
        if number == len(stages):
            strategy.after_sequence(learner)
        _finish(run, model, sequence, strategy, number, stage[-1] + 1, memory, before, started)


def _finish(
    run: ClassRun,
    model: MultiHeadClassifier,
    sequence: ClassSequence,
    strategy: Strategy,
    number: int,
    learned: int,
    memory: int,
    before: dict[str, float],
    started: float,
) -> None:
    """Test the network on the tasks learned, and keep what the stage left."""
    predictions = predict_tasks(run.config, model, sequence, learned)
    record = evaluated(sequence, predictions)
    run.log(event="evaluation", stage=number, average=record["average"])
    run.finish_stage(
        number,
        {
            "model": dict(model.suffix.state_dict()),
            "strategy": strategy.state(),
            "predictions": stored(sequence, predictions),
        },
        {
            "tasks": [task.name for task in sequence.tasks[:learned]],
            "metric_lines": run.metric_lines(),
            "seconds": time.monotonic() - started,
            "model_fingerprint": model.fingerprint(),
            "memory": {
                "model_bytes": _model_bytes(model, learned),
                "training_bytes": memory,
                "stored_bytes": strategy.memory().stored_bytes,
            },
            "evaluation": record,
            "nearest_mean": before,
        },
    )
    say(f"After stage {number}: average accuracy {record['average']:.3f} over {learned} tasks.")


def nearest_means(
    config: ClassifyConfig, model: MultiHeadClassifier, sequence: ClassSequence, tasks: Sequence[int]
) -> dict[str, float]:
    """The nearest-mean accuracy of tasks that are not learned yet, see `nearest_mean_accuracy`."""
    size = config.evaluation.batch_size
    found = {}
    for task in (sequence.tasks[number] for number in tasks):
        sides = [example_inputs(config, model, [side]) for side in (task.train, task.test)]
        found[task.name] = nearest_mean_accuracy(
            model.suffix, sides[0], task.train.labels, sides[1], task.test.labels, size
        )
    return found


def predict_tasks(
    config: ClassifyConfig, model: MultiHeadClassifier, sequence: ClassSequence, learned: int
) -> list[Predictions]:
    """What the network says of the test images of the first `learned` tasks."""
    size = config.evaluation.batch_size
    return [
        predict_task(model.suffix, example_inputs(config, model, [task.test]), number, learned, size)
        for number, task in enumerate(sequence.tasks[:learned])
    ]


def evaluated(sequence: ClassSequence, predictions: Sequence[Predictions]) -> dict[str, Any]:
    """Accuracy with and without the oracle, by task, as plain JSON values."""
    tasks = sequence.tasks[: len(predictions)]
    pairs = list(zip(tasks, predictions, strict=True))
    accuracy = {task.name: each.accuracy(task.test.labels) for task, each in pairs}
    free = {t.name: each.task_free_accuracy(number, t.test.labels) for number, (t, each) in enumerate(pairs)}
    return {
        "average": sum(accuracy.values()) / len(accuracy),
        "accuracy": accuracy,
        "task_free_average": sum(free.values()) / len(free),
        "task_free": free,
    }


def stored(sequence: ClassSequence, predictions: Sequence[Predictions]) -> dict[str, torch.Tensor]:
    """All tasks' predictions for a stage's file."""
    tensors: dict[str, torch.Tensor] = {}
    for task, each in zip(sequence.tasks, predictions, strict=False):
        tensors |= each.to_tensors(task.name)
    return tensors


def _model_bytes(model: MultiHeadClassifier, learned: int) -> int:
    """The network with the heads of the tasks learned so far."""
    unlearned = {id(p) for head in list(model.suffix.heads)[learned:] for p in head.parameters()}
    return bytes_of(p for p in model.parameters() if id(p) not in unlearned)
