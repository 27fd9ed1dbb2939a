"""What became of each fact: its average precision just after it was learned, and at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from factlearn.learning.results import RunResult

_ENOUGH_IMAGES = 6


@dataclass(frozen=True)
class FactChange:
    """One fact in one run; average precision over the whole test set, exact relevance."""

    fact: str
    task: str
    then: float
    now: float

    @property
    def lost(self) -> float:
        """Positive if the fact was forgotten."""
        return self.then - self.now


def fact_changes_of(result: RunResult) -> list[FactChange]:
    """Every fact that was learned before the last stage, most forgotten first; empty where all was learned at once."""
    final = result.final.exact.whole.average_precision
    changes = []
    before: set[str] = set()
    for learned, evaluation in list(zip(result.learned, result.evaluations, strict=True))[:-1]:
        then = evaluation.exact.whole.average_precision
        new = [task for task in result.tasks.tasks if task.name in learned and task.name not in before]
        before.update(learned)
        changes += [
            FactChange(name, task.name, then[name], final[name])
            for task in new
            for fact in task.facts
            if (name := str(fact)) in then
        ]
    return sorted(changes, key=lambda change: (-change.lost, change.fact))


def most_forgotten(changes: Mapping[str, Sequence[FactChange]], count: int) -> list[str]:
    """The facts that any method lost most of, each once."""
    worst: dict[str, float] = {}
    for listed in changes.values():
        for change in listed:
            worst[change.fact] = max(worst.get(change.fact, -1.0), change.lost)
    return sorted(worst, key=lambda fact: (-worst[fact], fact))[:count]


def lost_by_all(changes: Mapping[str, Sequence[FactChange]], least: float = 0.3) -> list[str]:
    """The fact that even the method which kept it best lost most of; none if there is no such, or only one method."""
    by_method = [{change.fact: change.lost for change in listed} for listed in changes.values()]
    shared = set.intersection(*(set(each) for each in by_method)) if len(by_method) > 1 else set()
    kept_best = {fact: min(each[fact] for each in by_method) for fact in shared}
    worst = sorted(kept_best, key=lambda fact: (-kept_best[fact], fact))[:1]
    return [fact for fact in worst if kept_best[fact] > least]


def changes_table(changes: Mapping[str, Sequence[FactChange]]) -> list[dict[str, Any]]:
    """A row a fact, most forgotten first, with every method's before and after."""
    by_method = {label: {change.fact: change for change in listed} for label, listed in changes.items()}
    task = {change.fact: change.task for listed in changes.values() for change in listed}
    facts = most_forgotten(changes, len(task))
    return [{"fact": f, "task": task[f], "cells": [table.get(f) for table in by_method.values()]} for f in facts]


def telling_facts(changes: Mapping[str, Sequence[FactChange]], count: int, images: Mapping[str, int]) -> list[str]:
    """Facts that show the methods apart: well learned, lost by one and kept by another, of different tasks if possible.

    With a single method, simply those it lost most of. `images` says how many test images show each fact: those with
    very few make a poor picture.
    """
    scores: dict[str, tuple[float, str]] = {}
    for fact, task in {change.fact: change.task for listed in changes.values() for change in listed}.items():
        found = [change for listed in changes.values() for change in listed if change.fact == fact]
        spread = max(change.lost for change in found) - min(change.lost for change in found)
        apart = spread if len(found) > 1 else found[0].lost
        shown = min(1.0, images.get(fact, 0) / _ENOUGH_IMAGES)
        scores[fact] = (apart * min(change.then for change in found) * shown, task)
    ordered = sorted(scores, key=lambda fact: (-scores[fact][0], fact))
    chosen: list[str] = []
    while ordered and len(chosen) < count:
        used = [scores[fact][1] for fact in chosen]
        fact = min(ordered, key=lambda name: (used.count(scores[name][1]), ordered.index(name)))
        chosen.append(fact)
        ordered.remove(fact)
    return chosen
