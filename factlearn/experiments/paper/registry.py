"""The experiments by name."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from factlearn.errors import ConfigError
from factlearn.experiments.paper.outcome import Outcome
from factlearn.experiments.paper.request import Request

Recipe = Callable[[Request, Outcome], None]


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes:
        name: on the command line.
        paper: what it is in the paper.
        title: in words.
        recipe: learns what it needs and fills an outcome.
        data: whether it uses the data that was asked for; the others bring their own.
    """

    name: str
    paper: str
    title: str
    recipe: Recipe
    data: bool


EXPERIMENTS: dict[str, Experiment] = {}
MODULES = ("facts", "inside", "objects", "costs")
"""Where experiments are, in the order in which they are best read."""


def experiment(name: str, paper: str, title: str, *, data: bool = True) -> Callable[[Recipe], Recipe]:
    """Make a function an experiment."""

    def register(recipe: Recipe) -> Recipe:
        if name in EXPERIMENTS:
            raise ValueError(f"There are two experiments called {name}.")
        EXPERIMENTS[name] = Experiment(name, paper, title, recipe, data)
        return recipe

    return register


def load_experiments() -> dict[str, Experiment]:
    """All experiments."""
    from importlib import import_module

    for module in MODULES:
        import_module(f"factlearn.experiments.paper.{module}")
    return EXPERIMENTS


def find_experiment(name: str) -> Experiment:
    """An experiment by name; a close one is suggested."""
    import difflib

    known = load_experiments()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f", did you mean {close[0]}?" if close else f"; there are {', '.join(known)}."
        raise ConfigError(f"There is no experiment {name!r}{hint}")
    return known[name]


def outcome_folder(request: Request, found: Experiment) -> Path:
    """Where an experiment's outcome is kept."""
    data = request.data_name if found.data else f"own-{request.scale}"
    return request.out / "reproduce" / data / found.name


def run_experiment(name: str, request: Request) -> tuple[Outcome, Path]:
    """Learn what an experiment needs, and keep its outcome."""
    found = find_experiment(name)
    request.check(folder=not found.data)
    own = f"{request.scale} scale, {request.seeds} seeds"
    outcome = Outcome(found.name, found.paper, found.title, request.label if found.data else own)
    options = f" --scale {request.scale}" if request.scale != "small" else ""
    options += f" --data {Path(request.data).name}" if found.data and request.data != "emoji" else ""
    options += f" --config {request.config_path.name}" if found.data and request.config_path else ""
    options += f" --seeds {request.seeds}" if request.seeds != 3 else ""
    options += f" --methods {','.join(request.methods)}" if request.methods else ""
    outcome.command = f"factlearn reproduce {name}{options}"
    started = time.monotonic()
    found.recipe(request, outcome)
    outcome.runs = len({result.run.folder for result in request.used}) + request.other_runs
    outcome.seconds = request.seconds() or time.monotonic() - started
    folder = outcome_folder(request, found)
    outcome.save(folder)
    return outcome, folder
