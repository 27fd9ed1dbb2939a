"""Adapting what a run must not forget: importance measured on the facts, classes or images a user cares about.

By default that importance is added to what the tasks so far left (`lifelong/mixture.py`): nothing is held less firmly
than before, and what is protected more so. `only` is the paper's section 5.2: the agent is active on a subset (say
sports), importance is measured there, and it alone counts from then on. Either way memory stays constant, and tasks
learned afterwards look at the same subset.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from factlearn.errors import RunError
from factlearn.files import atomic_directory, atomic_write, write_json
from factlearn.learning.config import RunConfig, parse_config
from factlearn.learning.outlook import Outlook
from factlearn.learning.problem import Problem, problem_class
from factlearn.learning.results import load_model
from factlearn.learning.runs import Run, load_tensors, save_tensors
from factlearn.lifelong.allocator import keep_freed_memory
from factlearn.lifelong.importance import Estimator, Importance
from factlearn.lifelong.registry import METHODS, make_strategy
from factlearn.lifelong.strategy import Learner, Strategy, group_of
from factlearn.models.inputs import in_order, open_inputs
from factlearn.progress import progress

USAGE = "usage.safetensors"


def adapt(
    run: Run,
    source: Sequence[str] | Path | None,
    out: Path,
    *,
    only: bool = False,
    weight: float | None = None,
) -> Run:
    """A copy of the run that protects facts or classes, a folder's images, or what it was used for.

    Args:
        run: with at least one finished stage.
        source: names of facts or classes, a folder of images, or None for what was gathered in use.
        out: the run directory to make.
        only: protect nothing else, as the paper does: the source's importance replaces that of the tasks so far.
        weight: how many times the source's importance is added, in units of the mean; the config's if not given.

    Raises:
        RunError: if the run's method cannot measure importance on images, nothing of the source is learned yet, or
            the place is taken.
    """
    keep_freed_memory()
    if METHODS.find(run.config.strategy.name).strategy.weighs_labels:
        from factlearn.learning.weighting import weigh

        return weigh(run, source, out)
    strategy = _adaptable_strategy(run, out)
    problem = problem_class(run.config).of_run(run, load_model(run))
    config = _adapted_config(run, source, out, only=only, weight=weight)
    learner = _measuring_learner(run, problem, source, only=only)
    used = used_importance(run, learner) if source is None else None
    importance = used.mean() if used else learner.importance(strategy.use_measure(learner.output))
    before = _omega(strategy)
    if only:
        strategy.replace_importance(importance)
    else:
        strategy.add_importance(importance, *config.strategy.mixture)
    heads = getattr(config.model, "readout", "") == "posterior"
    outlook = Outlook.of(before, importance, _omega(strategy), config.strategy.strength or 0.0, heads=heads)
    about = {
        "run": str(run.folder),
        "stage": run.finished_stages(),
        "source": "use" if source is None else str(source),
        "only": only,
        "outlook": outlook.to_json(),
    }
    return _copy_adapted(run, config, strategy, about, out)


def _omega(strategy: Strategy) -> dict[str, Tensor]:
    return group_of(strategy.state(), "omega")


def _measuring_learner(
    run: Run, problem: Problem, source: Sequence[str] | Path | None = None, *, only: bool = False
) -> Learner:
    """The last network, set up to measure importance on a source, or (None) on images of any kind."""
    suffix, finished = problem.model.suffix, run.finished_stages()
    learner = Learner(suffix, torch.optim.SGD(suffix.parameters(), lr=1.0), finished - 1)
    if source is None:
        return problem.importance_learner(learner, None)
    if isinstance(source, Path) or only:
        return problem.measuring(learner, source if isinstance(source, Path) else tuple(source))
    learned = [problem.tasks.index(name) for name in run.stage(finished)["tasks"]]
    names = problem.learned_names(source, learned)
    if not names:
        raise RunError(f"{', '.join(source)} has not been learned yet by {run.folder}; learn its task first.")
    return problem.measuring(learner, tuple(names))


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


def _adapted_config(
    run: Run, source: Sequence[str] | Path | None, out: Path, *, only: bool, weight: float | None
) -> RunConfig:
    """The run's config, by which later tasks protect the same source."""
    raw = yaml.safe_load(run.config.to_yaml())
    if source is not None:
        raw["strategy"]["importance" if only else "protect"] = str(source) if isinstance(source, Path) else list(source)
    if weight is not None:
        raw["strategy"]["protect_weight"] = weight
    return parse_config(raw, str(out))


def _copy_adapted(run: Run, config: RunConfig, strategy: Strategy, about: Mapping[str, Any], out: Path) -> Run:
    """A copy of the run that remembers what the strategy does now."""
    finished = run.finished_stages()
    with atomic_directory(out) as folder:
        shutil.copytree(run.folder, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("checkpoint", USAGE))
        with atomic_write(folder / "config.yaml") as stream:
            stream.write(config.to_yaml())
        save_tensors(strategy.state(), Run(folder, config).stage_folder(finished) / "strategy.safetensors")
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
    """Add the importance of images in use to that gathered for the run's last model (the paper's Figure 1)."""
    model = load_model(run)
    learner = _measuring_learner(run, problem_class(run.config).of_run(run, model))
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
