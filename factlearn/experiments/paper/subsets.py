"""Parts of a task: the sports facts, the two halves of the first task, and the runs whose importance looks at them."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from factlearn.config import shipped
from factlearn.data.registry import open_facts
from factlearn.data.tasks import Task, make_tasks
from factlearn.errors import DatasetError
from factlearn.evaluation.results import RunResult
from factlearn.experiments.paper.cells import Cell
from factlearn.experiments.paper.request import Request
from factlearn.facts import Fact, FactQuery, Relevance, read_patterns
from factlearn.files import atomic_directory
from factlearn.learning.facts import evaluate_facts, test_vectors
from factlearn.learning.seeds import derived_seed
from factlearn.lifelong.config import PROTECT_FLOOR, PROTECT_WEIGHT

_BY_MEANING = "tasks.method=agglomerative"
_TWO = ("tasks.method=random", "tasks.count=2")
FACTS = object()
"""Stands for the facts to protect."""
SPORTS: dict[str, dict[str, Any]] = {
    "sports": {"protect": FACTS},
    "sports-only": {"importance": FACTS},
    "firm": {"floor": PROTECT_WEIGHT + PROTECT_FLOOR},
}
"""What differs from plain MAS: what `factlearn adapt` does, what the paper does, and, to tell the effect of the choice
of facts from that of a firmer hold, a floor alone that holds as firmly as `adapt` does on average."""


def sports_facts(result: RunResult) -> list[Fact]:
    """The sports among the facts of a run's first task that have test images.

    Raises:
        DatasetError: if there are hardly any.
    """
    patterns = [FactQuery.parse(line) for line in read_patterns(shipped("sports.txt"))]
    tested = set(result.run.data.of_split("test").facts)
    first = [fact for fact in result.run.tasks().tasks[0].facts if fact in tested]
    found = [fact for fact in first if is_named(patterns, fact)]
    if len(found) < 3:
        raise DatasetError(
            f"The first task of {result.run.data.name} holds {len(found)} sports facts; at least 3 are needed."
        )
    return found


def sports_first(request: Request) -> tuple[str, str]:
    """A name for tasks by meaning, the one with the most sports first, and what sets them in a config."""
    patterns = [FactQuery.parse(line) for line in read_patterns(shipped("sports.txt"))]
    config = request.config(_BY_MEANING)
    dataset = open_facts(config.data, config.seed)
    language = config.language.open(dataset.facts, dataset.aliases)
    split = make_tasks(config.tasks, dataset, language, config.seed)
    most = max(split.tasks, key=lambda task: sum(is_named(patterns, fact) for fact in task.facts))
    if most is split.tasks[0]:
        return "agglomerative", _BY_MEANING
    path = request.out / f"four-tasks/{request.data_name}-sports-first.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(split, tasks=tuple(sorted(split.tasks, key=lambda task: task is not most))).save(path)
    return "sports-first", f"tasks={json.dumps({'method': 'file', 'file': str(path.resolve())})}"


def is_named(patterns: Sequence[FactQuery], fact: Fact) -> bool:
    """Whether a fact is one of those that patterns name."""
    return any(query.matches(fact, Relevance.EXACT) for query in patterns)


def sports_cells(
    request: Request, facts: Sequence[Fact], kind: str = "sports-only", tasks: tuple[str, str] | None = None
) -> list[Cell]:
    """MAS on tasks by meaning, or others under a name, with what `SPORTS` says of the kind, about these facts."""
    names = [str(fact) for fact in facts]
    settings = {key: names if value is FACTS else value for key, value in SPORTS[kind].items()}
    chosen = [f"strategy.{key}={json.dumps(value)}" for key, value in settings.items()]
    name, split = tasks or ("agglomerative", _BY_MEANING)
    place = f"four-tasks/{request.data_name}-{name}"
    return [request.cell(f"{place}/mas-{kind}-{seed}", "mas", seed, split, *chosen) for seed in range(request.seeds)]


def halves(facts: Sequence[Fact], seed: int) -> tuple[list[Fact], list[Fact]]:
    """T11 and T12: the facts at random in two halves."""
    order = np.random.default_rng(derived_seed(seed, "halves of the first task")).permutation(len(facts))
    ordered = sorted(facts)
    return [ordered[i] for i in sorted(order[::2])], [ordered[i] for i in sorted(order[1::2])]


def half_cells(request: Request, method: str, half: str) -> list[Cell]:
    """Two random tasks, importance of the first measured on the test images of one half of its facts."""
    config = request.config(*_TWO)
    dataset = open_facts(config.data, config.seed)
    language = config.language.open(dataset.facts, dataset.aliases)
    place = f"two-tasks/{request.data_name}"
    cells = []
    for seed in range(request.seeds):
        first = make_tasks(config.tasks, dataset, language, seed).tasks[0]
        chosen = halves(first.facts, seed)[half == "T12"]
        images = [sample.path for sample in dataset.of_split("test").of_facts(chosen).samples]
        folder = links(images, request.out / place / "images" / f"{half}-{seed}")
        importance = f"strategy.importance={json.dumps({first.name: str(folder)})}"
        cells.append(request.cell(f"{place}/{method}-{half}-{seed}", method, seed, *_TWO, importance))
    return cells


def two_task_cell(request: Request, method: str, seed: int) -> Cell:
    """Two random tasks with importance of whole tasks."""
    return request.cell(f"two-tasks/{request.data_name}/{method}-{seed}", method, seed, *_TWO)


def links(images: Sequence[Path], folder: Path) -> Path:
    """A folder of links to images, the same again if it is there; unlabelled images as a user would give them."""
    wanted = {f"{number:05d}{path.suffix}": path.resolve() for number, path in enumerate(images)}
    if not folder.is_dir() or {path.name: path.resolve() for path in folder.iterdir()} != wanted:
        if folder.is_dir():
            shutil.rmtree(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_directory(folder) as made:
            for name, path in wanted.items():
                (made / name).symlink_to(path)
    return folder.resolve()


def map_within(result: RunResult, facts: Sequence[Fact]) -> float:
    """MAP of some facts among the test images of these facts alone, at the end."""
    group = Task("group", tuple(facts))
    run = result.run
    vectors = test_vectors(run, len(result.learned))
    evaluation = evaluate_facts(run.config, run.data, run.language(), [group], vectors)
    return evaluation.exact.tasks["group"].map or 0.0
