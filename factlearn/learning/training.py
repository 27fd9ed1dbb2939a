"""Learning a sequence of tasks: the loop, from top to bottom.

Every random choice follows from the config's seed and the place in the run (stage, epoch), so that a run which goes on
from a checkpoint draws the same numbers as one that was never interrupted.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from factlearn.config import LearningConfig, RunConfig
from factlearn.data.samples import FactDataset
from factlearn.data.tasks import Task, TaskSplit
from factlearn.errors import ImageError, RunError
from factlearn.evaluation.facts import Evaluation, evaluate_vectors
from factlearn.facts import Fact
from factlearn.files import fingerprint
from factlearn.language import LanguageSpace
from factlearn.learning.assembly import build_embedder, choose_facts, make_tasks, open_dataset, open_language
from factlearn.learning.optimizer import load_momentum, make_optimizer, momentum_of, set_rate
from factlearn.learning.runs import Checkpoint, Run, RunDirectory, load_tensors, save_tensors
from factlearn.learning.stages import StageData, importance_batches, run_inputs
from factlearn.lifelong.allocator import keep_freed_memory
from factlearn.lifelong.memory import bytes_of
from factlearn.lifelong.registry import make_strategy
from factlearn.lifelong.strategy import Learner, Strategy
from factlearn.models.embedder import FactEmbedder
from factlearn.models.inputs import Inputs, Reiterable, in_order
from factlearn.models.parts import TwoPartModel
from factlearn.models.preprocess import PLAIN
from factlearn.progress import progress, say

AnyRun = TypeVar("AnyRun", bound=RunDirectory)


def train(config: RunConfig, out: Path | str, *, resume: bool = False, stop_after: int | None = None) -> Run:
    """Learn the tasks that the config describes, one after the other, and leave a run directory.

    Raises:
        FactlearnError: if the config cannot be carried out, before anything is written where possible.
    """
    out = Path(out)
    keep_freed_memory()
    dataset = open_dataset(config.data)
    language = open_language(config.language, dataset)
    tasks = make_tasks(config.tasks, dataset, language, config.seed)
    check_subsets(config, dataset)
    torch.manual_seed(derived_seed(config.seed, "initial weights"))
    model = build_embedder(config.model, language.dimension)

    if resume:
        run = Run.open(out)
        check_same_run(run, config, dataset.fingerprint())
    else:
        with Run.beginning(out, config) as run:
            tasks.save(run.folder / "tasks.json")
            language.save(run.folder / "language")
            save_tensors(dict(model.prefix.state_dict()), run.folder / "frozen.safetensors")
            run.describe(
                data=dataset.name,
                data_fingerprint=dataset.fingerprint(),
                language_fingerprint=language.fingerprint,
                threads=torch.get_num_threads(),
            )
    try:
        learn_tasks(run, model, dataset, language, tasks, stop_after=stop_after)
    except ImageError:
        if not resume and not run.metrics():
            shutil.rmtree(run.folder)  # nothing was learned; the next try may use the same place
        raise
    return run


def train_or_reuse(config: RunConfig, folder: Path) -> Run:
    """The run in the folder if it is finished, gone on with if it was interrupted, learned anew otherwise."""
    return reused(Run, train, config, folder)


def reused(kind: type[AnyRun], learn: Callable[..., AnyRun], config: LearningConfig, folder: Path) -> AnyRun:
    """As `train_or_reuse`, for runs of any kind and what learns them."""
    if not (folder / "config.yaml").is_file():
        return learn(config, folder)
    if kind.open(folder).config != config:
        say(f"{folder} was made with another config and is learned again.")
        shutil.rmtree(folder)
        return learn(config, folder)
    try:
        return learn(config, folder, resume=True)
    except RunError as error:
        raise RunError(f"{error} Remove {folder} to start it again.") from error


def learn_tasks(
    run: Run,
    model: FactEmbedder,
    dataset: FactDataset,
    language: LanguageSpace,
    tasks: TaskSplit,
    *,
    stop_after: int | None = None,
) -> None:
    """Learn the stages that are not finished yet, of the first `stop_after` if that is given."""
    config = run.config
    fabric = make_fabric(config.device)
    strategy = make_strategy(config.strategy)
    stages = strategy.stages(tasks.tasks)
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

    test = dataset.of_split("test")
    test_inputs = run_inputs(config.model, model, [sample.path for sample in test.samples], (PLAIN,))
    for number, stage in enumerate(stages[finished:until], finished + 1):
        started = time.monotonic()
        facts = [fact for task in stage for fact in task.facts]
        data = StageData.of(config, model, language, dataset.of_split("train").of_facts(facts).samples)
        name = " + ".join(task.name for task in stage)
        say(f"Stage {number} of {len(stages)}: {name}, {len(facts)} facts, {len(data.inputs)} images.")
        importance = partial(importance_batches, config, model, dataset, stage, data)
        learner, memory = learn_stage(run, fabric, model, strategy, data, number, importance)
        strategy.after_task(learner)
        if number == len(stages):
            strategy.after_sequence(learner)
        vectors = embed_inputs(model.suffix, test_inputs, config.evaluation.batch_size)
        learned = [task for group in stages[:number] for task in group]
        result = evaluate_run(config, dataset, language, learned, vectors)
        run.log(event="evaluation", stage=number, map_all=result.map_all, map_all_prefix=result.map_all_prefix)
        run.finish_stage(
            number,
            {
                "model": dict(model.suffix.state_dict()),
                "strategy": strategy.state(),
                "vectors": {"vectors": torch.from_numpy(vectors)},
            },
            {
                "tasks": [task.name for task in learned],
                "metric_lines": run.metric_lines(),
                "seconds": time.monotonic() - started,
                "model_fingerprint": model.fingerprint(),
                "memory": {
                    "model_bytes": bytes_of(model.parameters()),
                    "training_bytes": memory,
                    "stored_bytes": strategy.memory().stored_bytes,
                },
                "evaluation": result.to_json(),
            },
        )
        say(
            f"After stage {number}: MAP over all test images "
            f"{result.map_all_prefix:.3f} prefix, {result.map_all:.3f} exact."
        )


class LearningData(Protocol):
    """The images of a stage with what is to be learned of them."""

    @property
    def inputs(self) -> Inputs: ...

    def epoch(self, seed: int, batch_size: int) -> Iterator[tuple[Tensor, ...]]:
        """Every image once, in random order: batches of inputs and their targets."""

    def loss(self, outputs: Any, *targets: Tensor) -> Tensor:
        """How far the outputs of a batch are from its targets."""


def learn_stage(
    run: RunDirectory,
    fabric: Any,
    model: TwoPartModel,
    strategy: Strategy,
    data: LearningData,
    number: int,
    importance: Callable[[], Iterator[Any]],
    **about: Any,
) -> tuple[Learner, int]:
    """Learn one stage, from its checkpoint if there is one; the learner, and the bytes the strategy held meanwhile.

    `about` is what the learner says of the network beside the defaults.
    """
    config = run.config.training
    optimizer = make_optimizer(model, config)
    first_epoch = 0
    checkpoint = run.checkpoint(number)
    if checkpoint:
        model.suffix.load_state_dict(checkpoint.module)
        load_momentum(optimizer, checkpoint.optimizer)
        strategy.load_state(checkpoint.strategy)
        first_epoch = checkpoint.epoch
    run.rewind_metrics(checkpoint.metric_lines if checkpoint else run.lines_before(number))
    model.suffix.fit(in_order(data.inputs, run.config.evaluation.batch_size))
    module, optimizer = fabric.setup(model.suffix, optimizer)
    learner = Learner(model.suffix, optimizer, task=number - 1, inputs=Reiterable(importance), **about)
    strategy.before_task(learner)
    epochs = strategy.epochs(config.epochs)
    steps = -(-len(data.inputs) // config.batch_size)
    tensorboard = _tensorboard(run)
    with progress(f"learning stage {number}", epochs * steps) as advance:
        advance(first_epoch * steps)
        for epoch in range(first_epoch, epochs):
            seed = derived_seed(run.config.seed, number, epoch)
            torch.manual_seed(seed)
            module.train()
            learner.epoch = epoch
            losses = []
            for step, (batch, *targets) in enumerate(data.epoch(seed, config.batch_size)):
                set_rate(optimizer, config, epoch, step + epoch * steps)
                outputs = module(batch)
                loss = data.loss(outputs, *targets)
                extra = strategy.extra_loss(learner, batch, outputs)
                fabric.backward(loss if extra is None else loss + extra)
                if config.clip_norm is not None:
                    fabric.clip_gradients(module, optimizer, max_norm=config.clip_norm)
                strategy.after_backward(learner)
                optimizer.step()
                optimizer.zero_grad()
                strategy.after_step(learner)
                losses.append(loss.detach())
                advance(1)
            mean = float(torch.stack(losses).mean())
            advance(0, note=f"loss {mean:.3f}")
            if not np.isfinite(mean):
                raise RunError(
                    f"The loss of stage {number} diverged in epoch {epoch + 1}; lower training.learning_rate."
                )
            run.log(event="epoch", stage=number, epoch=epoch + 1, loss=mean)
            if tensorboard:
                tensorboard.add_scalar(f"loss/stage {number}", mean, epoch + 1)
            if (epoch + 1) % config.checkpoint_epochs == 0 and epoch + 1 < epochs:
                save_checkpoint(run, model, optimizer, strategy, number, epoch + 1)
    if tensorboard:
        tensorboard.close()
    return learner, strategy.memory().training_bytes


def embed_inputs(module: nn.Module, inputs: Inputs, batch_size: int) -> NDArray[np.float32]:
    """Vectors [N, 3, D] of inputs, in their order."""
    device = next(module.parameters()).device
    module.eval()
    with torch.inference_mode():
        return np.concatenate(
            [module(batch.to(device)).float().cpu().numpy() for batch in in_order(inputs, batch_size)]
        )


def evaluate_run(
    config: RunConfig,
    dataset: FactDataset,
    language: LanguageSpace,
    tasks: Sequence[Task],
    vectors: NDArray[np.float32],
) -> Evaluation:
    """MAP of the test images' vectors on every task given, the whole test set and the config's subsets."""
    test = dataset.of_split("test")
    known = set(dataset.of_split("train").facts)
    kept = [row for row, sample in enumerate(test.samples) if sample.fact in known]
    facts = sorted(known)
    return evaluate_vectors(
        vectors[kept],
        [fact for row in kept if (fact := test.samples[row].fact)],
        facts,
        language.embed(facts),
        ids=[test.samples[row].id for row in kept],
        tasks={task.name: task.facts for task in tasks},
        subsets=check_subsets(config, dataset),
    )


def check_subsets(config: RunConfig, dataset: FactDataset) -> dict[str, list[Fact]]:
    """The facts of the config's named subsets."""
    facts = dataset.of_split("train").facts
    return {name: choose_facts(patterns, facts) for name, patterns in config.evaluation.subsets.items()}


def derived_seed(seed: int, *place: Any) -> int:
    """A seed for one place in the run, from the run's one seed."""
    return int(fingerprint(seed, *place)[:8], 16)


def save_checkpoint(
    run: RunDirectory, model: TwoPartModel, optimizer: Any, strategy: Strategy, stage: int, epoch: int
) -> None:
    """Keep the middle of a stage."""
    momentum = momentum_of(optimizer)
    run.save_checkpoint(
        Checkpoint(stage, epoch, run.metric_lines(), dict(model.suffix.state_dict()), momentum, strategy.state())
    )


def check_same_run(run: RunDirectory, config: LearningConfig, data_fingerprint: str) -> None:
    """A run goes on only with the config and the data it was started with."""
    if run.config != config:
        raise RunError(f"{run.folder} was started with another config; resume it with its own config.yaml.")
    run.check_data(data_fingerprint)


def make_fabric(device: str) -> Any:
    """The training engine on a device."""
    import logging

    from lightning_fabric import Fabric

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    try:
        return Fabric(accelerator=device, devices=1)
    except (RuntimeError, ValueError) as error:
        raise RunError(f"The device {device!r} cannot be used ({error}); set device to auto or cpu.") from error


def _tensorboard(run: RunDirectory) -> Any:
    if not run.config.tensorboard:
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise RunError("TensorBoard is not installed; install factlearn[demo] or set tensorboard: false.") from None
    return SummaryWriter(run.folder / "tensorboard")
