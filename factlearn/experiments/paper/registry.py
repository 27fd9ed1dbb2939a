"""The experiments by name."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from factlearn.config import Registry
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
        folder: whether that data may be a folder of object tasks.
    """

    name: str
    paper: str
    title: str
    recipe: Recipe
    data: bool
    folder: bool = False

    @property
    def summary(self) -> str:
        """What it is in the paper."""
        return self.paper

    @property
    def origin(self) -> object:
        """What tells two experiments of one name apart."""
        return self.recipe


_PACKAGE = "factlearn.experiments.paper"
EXPERIMENTS: Registry[Experiment] = Registry(
    "experiment",
    "factlearn.experiments",
    # In the order in which they are best read, then whatever else the package holds.
    (*(f"{_PACKAGE}.{name}" for name in ("facts", "sports", "inside", "objects", "learning", "costs")), _PACKAGE),
)


def experiment(
    name: str, paper: str, title: str, *, data: bool = True, folder: bool = False
) -> Callable[[Recipe], Recipe]:
    """Make a function an experiment."""

    def register(recipe: Recipe) -> Recipe:
        EXPERIMENTS.register(name, Experiment(name, paper, title, recipe, data, folder))
        return recipe

    return register


def outcome_folder(request: Request, found: Experiment) -> Path:
    """Where an experiment's outcome is kept."""
    data = request.data_name if found.data else f"own-{request.scale}"
    return request.out / "reproduce" / data / found.name


def kept_outcome(request: Request, found: Experiment) -> Outcome | None:
    """The outcome kept for this data and scale, if the experiment was run."""
    folder = outcome_folder(request, found)
    return Outcome.load(folder) if (folder / "outcome.json").is_file() else None


def run_experiment(name: str, request: Request) -> tuple[Outcome, Path]:
    """Learn what an experiment needs, and keep its outcome."""
    found = EXPERIMENTS.find(name)
    request.check(folder=found.folder or not found.data)
    outcome = Outcome(
        found.name, found.paper, found.title, request.label if found.data else request.size(request.seeds)
    )
    options = f" --scale {request.scale}" if request.scale != "small" else ""
    options += f" --data {Path(request.data).name}" if found.data and request.data != "emoji" else ""
    options += f" --config {request.config_path.name}" if found.data and request.config_path else ""
    options += f" --seeds {request.seeds}" if request.seeds != 3 else ""
    options += f" --methods {','.join(request.methods)}" if request.methods else ""
    outcome.command = f"factlearn reproduce {name}{options}"
    started = time.monotonic()
    found.recipe(request, outcome)
    if request.diverged:
        outcome.notes.append(f"Diverged and left out: {', '.join(dict.fromkeys(request.diverged))}.")
    outcome.runs = len({result.run.folder for result in request.used})
    outcome.seconds = request.seconds() or time.monotonic() - started
    folder = outcome_folder(request, found)
    outcome.save(folder)
    return outcome, folder
