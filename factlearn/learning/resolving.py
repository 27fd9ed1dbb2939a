"""Solving a run's outputs again from its sums: what forgetting, merging and another readout have in common."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from factlearn.errors import RunError
from factlearn.learning.problem import Problem, problem_class
from factlearn.learning.runs import Run, load_tensors
from factlearn.learning.training import finish_stage
from factlearn.lifelong.registry import METHODS, make_strategy
from factlearn.lifelong.ridge import Ridge
from factlearn.lifelong.strategy import Learner
from factlearn.models.inputs import Reiterable, in_order

_OUTPUTS = ("heads.", "fork.", "units", "temperature")


def closed_form_of(run: Run, what: str) -> Ridge:
    """The sums that a run's last stage left.

    Args:
        what: the command, for the refusal of a run that keeps no sums.

    Raises:
        RunError: if the run's method keeps none, or nothing is learned yet.
    """
    stage = run.check_stage()
    strategy = make_strategy(run.config.strategy)
    if not isinstance(strategy, Ridge):
        title = METHODS.find(run.config.strategy.name).title
        raise RunError(
            f"{run.folder} was learned with {title}; {what} needs a run learned in closed form (ridge), which "
            "keeps sums over images."
        )
    strategy.load_state(load_tensors(run.stage_folder(stage) / "strategy.safetensors"))
    return strategy


def feature_tensors(run: Run) -> dict[str, Tensor]:
    """Everything that a run's features depend on: the frozen layers and what lies below the outputs."""
    frozen = {f"frozen.{name}": each for name, each in load_tensors(run.folder / "frozen.safetensors").items()}
    learned = load_tensors(run.stage_folder(run.check_stage()) / "model.safetensors")
    return frozen | {name: each for name, each in learned.items() if not name.startswith(_OUTPUTS)}


def reopened(run: Run, features: Mapping[str, Tensor]) -> Problem:
    """The problem of a run whose tasks have changed, its network with these features and outputs yet to be solved."""
    kind = problem_class(run.config)
    model = kind.network(run)
    start = "frozen."
    model.prefix.load_state_dict({n.removeprefix(start): each for n, each in features.items() if n.startswith(start)})
    below = {name: each for name, each in features.items() if not name.startswith(start)}
    model.suffix.load_state_dict({**model.suffix.state_dict(), **below})
    return kind.of_run(run, model.eval())


def labelled_learner(problem: Problem, task: int, rows: Sequence[int], learned: int) -> Learner:
    """A learner of some of a task's training photos (`Problem.labelled_images`), once the first tasks are learned."""
    data = problem.labelled_images(task, rows)
    batches = Reiterable(lambda: data.labelled_batches(problem.config.evaluation.batch_size))
    suffix = problem.model.suffix
    learner = Learner(suffix, torch.optim.SGD(suffix.parameters(), lr=1.0), task, batches)
    return problem.solving_learner(learner, learned)


def solve_stage(
    run: Run, problem: Problem, strategy: Ridge, number: int, learned: int, about: Mapping[str, Any] | None = None
) -> None:
    """Solve for the outputs of the first tasks and keep the network as a stage of the run."""
    started = time.monotonic()
    tasks = range(learned)
    suffix = problem.model.suffix
    probe = next(in_order(problem.test_inputs(tasks), 1), None)
    if probe is None:
        raise RunError(f"None of the test photos of {run.folder} exists any more; restore some.")
    learner = Learner(suffix, torch.optim.SGD(suffix.parameters(), lr=1.0), number - 1, [probe])
    strategy.solve(problem.solving_learner(learner, learned))
    finish_stage(run, problem, strategy, number, list(tasks), started, strategy.memory().training_bytes, about or {})


def check_out(out: Path) -> None:
    """Refuse a place that is taken."""
    if out.exists():
        raise RunError(f"{out} exists already; choose another --out.")
