"""Forgetting in pictures: what a query finds after each task, method beside method."""

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from factlearn.errors import FactError, ImageError, LanguageError
from factlearn.evaluation.results import RunResult
from factlearn.evaluation.scoring import masked_scores
from factlearn.facts import FactQuery, Relevance
from factlearn.images import load_image
from factlearn.learning.facts import test_vectors

_THUMBNAIL = 72


@dataclass(frozen=True)
class Retrieved:
    """One image found for a query, ready for the page."""

    picture: str
    label: str
    right: bool


@dataclass(frozen=True)
class Found:
    """The first images a method finds at one moment.

    Attributes:
        known: whether a fact that answers the query was learned by then.
        possible: how many right images could be among them.
        verb: what happened to the right ones.
        remark: to stand below the images.
    """

    method: str
    images: list[Retrieved]
    known: bool
    possible: int
    verb: str = "found"
    remark: str = ""

    @property
    def right(self) -> int:
        """How many of them are right."""
        return sum(image.right for image in self.images)


@dataclass(frozen=True)
class Moment:
    """After one task, all methods side by side."""

    after: str
    found: list[Found]


@dataclass(frozen=True)
class Gallery:
    """What became of one query.

    Attributes:
        learned_in: the tasks that hold facts which answer it.
        relevant: how many test images there are to be found.
        moments: after each task, the methods that learn one after the other.
        reference: those that learned all at once.
        sentence: the whole in words.
    """

    query: str
    learned_in: list[str]
    relevant: int
    moments: list[Moment]
    reference: list[Found]
    sentence: str


def gallery(results: Mapping[str, RunResult], text: str, k: int) -> Gallery:
    """The first `k` test images for a query, after each stage of each run.

    Raises:
        FactError: if the query cannot be read, or none of the test images answers it.
    """
    query = FactQuery.parse(text)
    first = next(iter(results.values()))
    samples = first.run.data.of_split("test").samples
    rule = Relevance.PREFIX if any(unit is None for unit in query.units) else Relevance.EXACT
    relevant = sum(any(query.matches(fact, rule) for fact in sample.facts) for sample in samples)
    if not relevant:
        raise FactError(f"None of the test images answers {query}; choose a fact of the runs' data.")
    tasks = first.run.tasks().tasks
    learned_in = [task.name for task in tasks if any(query.matches(fact, rule) for fact in task.facts)]
    possible = min(k, relevant)
    found = {
        method: _after_each(method, result, query, rule, learned_in, possible, k) for method, result in results.items()
    }
    in_turn = {method: cells for method, cells in found.items() if not results[method].at_once}
    moments = [
        Moment(task.name, [cells[place] for cells in in_turn.values() if place < len(cells)])
        for place, task in enumerate(tasks)
    ]
    reference = [cells[0] for method, cells in found.items() if method not in in_turn]
    moments = [moment for moment in moments if moment.found]
    return Gallery(str(query), learned_in, relevant, moments, reference, _sentence(in_turn))


def _after_each(
    method: str, result: RunResult, query: FactQuery, rule: Relevance, learned_in: list[str], possible: int, k: int
) -> list[Found]:
    try:
        targets, mask = result.run.language().embed([query])
    except LanguageError as error:
        raise FactError(f"{query} cannot be queried: {error}") from None
    samples = result.run.data.of_split("test").samples
    cells = []
    for stage, learned in enumerate(result.learned, 1):
        vectors = test_vectors(result.run, stage)
        best = np.argsort(-masked_scores(vectors, targets, mask)[0], kind="stable")[:k]
        images = [
            Retrieved(
                thumbnail(samples[i].path),
                " ".join(map(str, facts)),
                any(query.matches(fact, rule) for fact in facts),
            )
            for i in best
            if (facts := samples[i].facts)
        ]
        cells.append(Found(method, images, not set(learned).isdisjoint(learned_in), possible))
    return cells


def _sentence(in_turn: Mapping[str, list[Found]]) -> str:
    """How many were found after each task, from the one that taught them on."""
    parts = []
    for method, cells in in_turn.items():
        known = [cell for cell in cells if cell.known]
        if len(known) > 1:
            parts.append(f"{method} {', '.join(str(cell.right) for cell in known)}")
            possible = known[-1].possible
    return f"Of {possible} that could be found, task after task: {'; '.join(parts)}." if parts else ""


@lru_cache(maxsize=4096)
def thumbnail(path: Path) -> str:
    """A small picture as a data address; empty where the image cannot be read any more."""
    try:
        image = load_image(path)
    except ImageError:
        return ""
    image.thumbnail((_THUMBNAIL, _THUMBNAIL))
    stream = io.BytesIO()
    image.save(stream, format="WEBP", quality=80)
    return "data:image/webp;base64," + base64.b64encode(stream.getvalue()).decode()
