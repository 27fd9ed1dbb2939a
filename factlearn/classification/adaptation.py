"""Adapting what a classifier must not forget: importance measured anew on one class, or on a user's images."""

from collections.abc import Sequence
from pathlib import Path

import torch

from factlearn.classification.data import example_inputs, open_sequence
from factlearn.classification.results import load_model
from factlearn.classification.runs import ClassRun
from factlearn.classification.training import learn_tasks
from factlearn.errors import RunError
from factlearn.images import find_images
from factlearn.learning.adapted import adaptable_strategy, copy_adapted
from factlearn.learning.assembly import make_preprocess
from factlearn.lifelong.allocator import keep_freed_memory
from factlearn.lifelong.strategy import Learner
from factlearn.models.inputs import Inputs, Reiterable, in_order, open_inputs


def adapt(run: ClassRun, source: Sequence[str] | Path, out: Path) -> ClassRun:
    """A copy of the run whose importance is that of some classes of one task, or of a folder's images.

    Classes are looked at through their own task's head, a folder's images through that of the last task learned.

    Raises:
        RunError: if the run's method cannot measure importance on images, a class was not learned yet, or the place
            is taken.
    """
    keep_freed_memory()
    strategy = adaptable_strategy(run, out)
    model = load_model(run)
    head = model.suffix.open - 1
    inputs: Inputs
    if isinstance(source, Path):
        inputs = open_inputs(model, make_preprocess(run.config.model), find_images(source), store=None)
    else:
        sequence = open_sequence(run.config.data, run.config.seed)
        places = [sequence.find_class(name) for name in source]
        if len({task for task, _ in places}) != 1:
            raise RunError("Name classes of one task; each task's head is looked through by itself.")
        if places[0][0] > head:
            raise RunError(f"{run.folder} has not learned {sequence.tasks[places[0][0]].name} yet; learn it first.")
        head = places[0][0]
        inputs = example_inputs(run.config, model, [sequence.tasks[task].train.of_class(c) for task, c in places])
    model.suffix.heads.requires_grad_(False)
    learner = Learner(
        model.suffix,
        torch.optim.SGD(model.suffix.parameters(), lr=1.0),
        run.finished_stages() - 1,
        Reiterable(lambda: in_order(inputs, run.config.evaluation.batch_size)),
        output="scores",
        measured=model.suffix.of_task(head),
    )
    strategy.omega = strategy.raised(strategy.measure(learner))
    return copy_adapted(run, strategy, source, out)


def learn_more(run: ClassRun, count: int | None = None) -> ClassRun:
    """Learn the tasks of a run that are left, or the next `count` of them."""
    keep_freed_memory()
    finished = run.finished_stages()
    if not finished:
        raise RunError(f"{run.folder} has no finished task to go on from; train it with --resume.")
    sequence = open_sequence(run.config.data, run.config.seed)
    run.check_data(sequence.fingerprint)
    learn_tasks(run, load_model(run), sequence, stop_after=None if count is None else finished + count)
    return run
