"""Adapting what a run must not forget: importance measured anew on the facts or images a user cares about.

The paper's section 5.2: the agent is active on a subset (say sports), importance is measured there, and the sequence
goes on. Adapting replaces the importance of all tasks so far, so memory stays constant; tasks learned afterwards
measure theirs on the same subset.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from factlearn.data.tasks import TaskSplit
from factlearn.errors import RunError
from factlearn.learning.adapted import USAGE, adaptable_strategy, copy_adapted
from factlearn.learning.assembly import make_preprocess, open_dataset
from factlearn.learning.results import load_model
from factlearn.learning.runs import Run
from factlearn.learning.stages import source_inputs
from factlearn.learning.training import learn_tasks
from factlearn.lifelong.allocator import keep_freed_memory
from factlearn.lifelong.config import EWCConfig
from factlearn.lifelong.importance import Estimator, Importance
from factlearn.lifelong.measures import Fisher
from factlearn.lifelong.strategy import Learner
from factlearn.models.embedder import FactEmbedder
from factlearn.models.inputs import Reiterable, in_order, open_inputs
from factlearn.progress import progress


def adapt(run: Run, source: Sequence[str] | Path | None, out: Path) -> Run:
    """A copy of the run whose importance is that of facts, of a folder's images, or (None) of what it was used for.

    Raises:
        RunError: if the run's method cannot measure importance on images, or the place is taken.
    """
    keep_freed_memory()
    strategy = adaptable_strategy(run, out)
    model = load_model(run)
    learner = Learner(model.suffix, torch.optim.SGD(model.suffix.parameters(), lr=1.0), run.finished_stages() - 1)
    if source is None:
        strategy.omega = strategy.raised(used_importance(run, model).mean())
    else:
        dataset = open_dataset(run.config.data)
        chosen: Any = source if isinstance(source, Path) else tuple(source)
        inputs = source_inputs(run.config, model, dataset, chosen, ())
        learner.inputs = Reiterable(lambda: in_order(inputs, run.config.evaluation.batch_size))
        strategy.omega = strategy.raised(strategy.measure(learner))
    return copy_adapted(run, strategy, source, out)


def learn_more(run: Run, names: Sequence[str]) -> Run:
    """Learn further tasks of a run, by name, in the order given; no names: all that are left."""
    keep_freed_memory()
    tasks = run.tasks()
    finished = run.finished_stages()
    if not finished:
        raise RunError(f"{run.folder} has no finished task to go on from; train it with --resume.")
    learned = set(run.stage(finished)["tasks"])
    by_name = {task.name: task for task in tasks.tasks}
    left = [task.name for task in tasks.tasks if task.name not in learned]
    for name in names:
        if name not in by_name:
            raise RunError(f"{run.folder} has no task {name!r}; its tasks are {', '.join(by_name)}.")
        if name in learned:
            raise RunError(f"{run.folder} has learned {name!r} already; left are {', '.join(left) or 'none'}.")
    chosen = list(dict.fromkeys(names)) or left
    if not chosen:
        raise RunError(f"{run.folder} has learned all its tasks.")
    order = [name for name in by_name if name in learned] + chosen
    order += [name for name in by_name if name not in order]
    dataset = open_dataset(run.config.data)
    run.check_data(dataset.fingerprint())
    tasks = TaskSplit(tasks.method, tuple(by_name[name] for name in order), tasks.details)
    tasks.save(run.folder / "tasks.json")
    model = load_model(run)
    learn_tasks(run, model, dataset, run.language(), tasks, stop_after=len(learned) + len(chosen))
    return run


def used_importance(run: Run, model: FactEmbedder) -> Importance:
    """The importance gathered while the run's model was in use.

    Raises:
        RunError: if nothing was gathered, or by another model.
    """
    path = run.folder / USAGE
    if not path.is_file():
        raise RunError(f"{run.folder} has gathered no importance in use; build an index with --learn-importance first.")
    importance = Importance.load(path)
    expected = {name: parameter.shape for name, parameter in model.suffix.named_parameters()}
    if {name: total.shape for name, total in importance.sums.items()} != expected:
        raise RunError(f"{path} was gathered by another network; remove it.")
    return importance


def learn_from_use(run: Run, images: Sequence[Path], batch_size: int = 64) -> Importance:
    """Add the importance of images to what the run's last model has gathered in use (the paper's Figure 1)."""
    model = load_model(run)
    path = run.folder / USAGE
    start = Importance.load(path) if path.is_file() else None
    estimator = Estimator(model.suffix, _measure_of(run), start=start)
    inputs = open_inputs(model, make_preprocess(run.config.model), images, store=None)
    with progress("importance of images in use", len(inputs)) as advance:
        for batch in in_order(inputs, batch_size):
            estimator.update(batch)
            advance(len(batch))
    estimator.importance.save(path)
    return estimator.importance


def _measure_of(run: Run) -> str | Fisher:
    """What the run's method measures on unlabelled images."""
    strategy = run.config.strategy
    if isinstance(strategy, EWCConfig):
        return Fisher("sampled" if strategy.labels == "empirical" else strategy.labels, "gaussian")
    return {"l-mas": "local", "mas-vector": "mas-vector"}.get(strategy.name, "mas")
