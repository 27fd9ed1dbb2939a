"""Adapting what a run must not forget: importance measured anew on the facts, classes or images a user cares about.

The paper's section 5.2: the agent is active on a subset (say sports), importance is measured there, and the sequence
goes on. Adapting replaces the importance of all tasks so far, so memory stays constant; tasks learned afterwards
measure theirs on the same subset.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
import yaml

from factlearn.errors import RunError
from factlearn.files import atomic_directory, atomic_write, write_json
from factlearn.learning.config import parse_config
from factlearn.learning.problem import Problem, problem_class
from factlearn.learning.results import load_model
from factlearn.learning.runs import Run, load_tensors, save_tensors
from factlearn.lifelong.allocator import keep_freed_memory
from factlearn.lifelong.importance import Estimator, Importance
from factlearn.lifelong.registry import METHODS, make_strategy
from factlearn.lifelong.strategy import Learner, Strategy
from factlearn.models.inputs import in_order, open_inputs
from factlearn.progress import progress

USAGE = "usage.safetensors"


def adapt(run: Run, source: Sequence[str] | Path | None, out: Path) -> Run:
    """A copy of the run whose importance is that of facts or classes, of a folder's images, or of what it was used for.

    Args:
        run: with at least one finished stage.
        source: names of facts or classes, a folder of images, or None for what was gathered in use.
        out: the run directory to make.

    Raises:
        RunError: if the run's method cannot measure importance on images, or the place is taken.
    """
    keep_freed_memory()
    if METHODS.find(run.config.strategy.name).strategy.weighs_labels:
        from factlearn.learning.weighting import weigh

        return weigh(run, source, out)
    strategy = _adaptable_strategy(run, out)
    problem = problem_class(run.config).of_run(run, load_model(run))
    names = None if source is None or isinstance(source, Path) else tuple(source)
    learner = _measuring_learner(run, problem, names)
    if source is None:
        strategy.replace_importance(used_importance(run, learner).mean())
    else:
        learner.inputs = problem.batches_of(source if names is None else names)
        strategy.remeasure(learner)
    return _copy_adapted(run, strategy, source, out)


def _measuring_learner(run: Run, problem: Problem, names: Sequence[str] | None) -> Learner:
    """The last network, set up to measure importance on named facts or classes, or (None) on images of any kind."""
    suffix = problem.model.suffix
    optimizer = torch.optim.SGD(suffix.parameters(), lr=1.0)
    return problem.importance_learner(Learner(suffix, optimizer, run.finished_stages() - 1), names)


def _adaptable_strategy(run: Run, out: Path) -> Strategy:
    """The run's method as its last stage left it."""
    method = METHODS.find(run.config.strategy.name)
    if not method.importance:
        able = ", ".join(name for name, each in METHODS.items() if each.importance)
        raise RunError(
            f"{run.folder} was learned with {method.title}, which cannot measure importance on images; adapt a run of "
            f"one of {able}."
        )
    finished = run.finished_stages()
    if not finished:
        raise RunError(f"{run.folder} has learned nothing yet; train it first.")
    if out.exists():
        raise RunError(f"{out} exists already; choose another --out.")
    strategy = make_strategy(run.config.strategy)
    strategy.load_state(load_tensors(run.stage_folder(finished) / "strategy.safetensors"))
    return strategy


def _copy_adapted(run: Run, strategy: Strategy, source: Sequence[str] | Path | None, out: Path) -> Run:
    """A copy of the run that remembers what the strategy does now, and measures later tasks on the same source."""
    finished = run.finished_stages()
    raw = yaml.safe_load(run.config.to_yaml())
    if source is not None:
        raw["strategy"]["importance"] = str(source) if isinstance(source, Path) else list(source)
    config = parse_config(raw, str(out))
    with atomic_directory(out) as folder:
        shutil.copytree(run.folder, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("checkpoint", USAGE))
        with atomic_write(folder / "config.yaml") as stream:
            stream.write(config.to_yaml())
        save_tensors(strategy.state(), Run(folder, config).stage_folder(finished) / "strategy.safetensors")
        about = {"run": str(run.folder), "stage": finished, "source": "use" if source is None else str(source)}
        write_json(folder / "run.json", {**run.description(), "adapted": about})
    return Run.open(out)


def used_importance(run: Run, learner: Learner) -> Importance:
    """The importance gathered while the run's model was in use.

    Raises:
        RunError: if nothing was gathered, or by another model.
    """
    path = run.folder / USAGE
    if not path.is_file():
        raise RunError(f"{run.folder} has gathered no importance in use; build an index with --learn-importance first.")
    importance = Importance.load(path)
    expected = {name: parameter.shape for name, parameter in learner.parameters().items()}
    if {name: total.shape for name, total in importance.sums.items()} != expected:
        raise RunError(f"{path} was gathered by another network; remove it.")
    return importance


def learn_from_use(run: Run, images: Sequence[Path], batch_size: int = 64) -> Importance:
    """Add the importance of images to what the run's last model has gathered in use (the paper's Figure 1)."""
    model = load_model(run)
    learner = _measuring_learner(run, problem_class(run.config).of_run(run, model), None)
    path = run.folder / USAGE
    start = Importance.load(path) if path.is_file() else None
    measure = make_strategy(run.config.strategy).use_measure(learner.output)
    estimator = Estimator(learner.measured or learner.module, measure, start=start)
    inputs = open_inputs(model, images, keep=False)
    with progress("importance of images in use", len(inputs)) as advance:
        for batch in in_order(inputs, batch_size):
            estimator.update(batch)
            advance(len(batch))
    estimator.importance.save(path)
    return estimator.importance
