"""What became of each fact or class: how well it was known just after it was learned, and at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from factlearn.evaluation.results import RunResult
from factlearn.learning.classes import test_predictions

_ENOUGH_IMAGES = 6


@dataclass(frozen=True)
class Change:
    """One fact (average precision over the whole test set, exact relevance) or class (accuracy) in one run."""

    name: str
    task: str
    then: float
    now: float

    @property
    def lost(self) -> float:
        """Positive if it was forgotten."""
        return self.then - self.now


def changes_of(result: RunResult) -> list[Change]:
    """All that was learned before the last stage, most forgotten first; empty where all was learned at once."""
    found = _class_changes(result) if result.run.config.learn == "classes" else _fact_changes(result)
    return sorted(found, key=lambda change: (-change.lost, change.name))


def _fact_changes(result: RunResult) -> list[Change]:
    final = result.final.exact.whole.average_precision
    tasks = {task.name: task.facts for task in result.run.tasks().tasks}
    changes: list[Change] = []
    before: set[str] = set()
    seen: set[str] = set()
    for learned, evaluation in list(zip(result.learned, result.evaluations, strict=True))[:-1]:
        then = evaluation.exact.whole.average_precision
        for task in (name for name in learned if name not in before):
            names = [name for name in map(str, tasks[task]) if name in then and name in final and name not in seen]
            changes += [Change(name, task, then[name], final[name]) for name in names]
            seen.update(names)  # a task added later may bring new photos of a known fact
        before.update(learned)
    return changes


def _class_changes(result: RunResult) -> list[Change]:
    if not result.in_turn:
        return []
    final = class_accuracies(result, len(result.learned))
    return [
        Change(name, task.name, value, final[name])
        for place, task in enumerate(result.run.data.tasks[: len(result.learned) - 1])
        for name, value in class_accuracies(result, place + 1).items()
        if name in final and name in {class_title(task, label) for label in range(len(task.classes))}
    ]


def class_title(task: Any, label: int) -> str:
    """A class with its task, since two tasks may have classes of one name."""
    return f"{task.classes[label]} ({task.name})"


def class_accuracies(result: RunResult, stage: int) -> dict[str, float]:
    """Accuracy on the test images of every class learned by a stage (from 1), its task's own head chosen.

    A class whose test images were all gone by then is left out.
    """
    predictions = test_predictions(result.run, stage)
    return {
        class_title(task, label): each.class_accuracy(label, task.test.labels)
        for each, task in zip(predictions, result.run.data.tasks, strict=False)
        for label in sorted(set(task.test.labels[each.own >= 0].tolist()))
    }


def most_forgotten(changes: Mapping[str, Sequence[Change]], count: int) -> list[str]:
    """The facts that any method lost most of, each once."""
    worst: dict[str, float] = {}
    for listed in changes.values():
        for change in listed:
            worst[change.name] = max(worst.get(change.name, -1.0), change.lost)
    return sorted(worst, key=lambda fact: (-worst[fact], fact))[:count]


def lost_by_all(changes: Mapping[str, Sequence[Change]], least: float = 0.3) -> list[str]:
    """The fact that even the method which kept it best lost most of; none if there is no such, or only one method."""
    by_method = [{change.name: change.lost for change in listed} for listed in changes.values()]
    shared = set.intersection(*(set(each) for each in by_method)) if len(by_method) > 1 else set()
    kept_best = {fact: min(each[fact] for each in by_method) for fact in shared}
    worst = sorted(kept_best, key=lambda fact: (-kept_best[fact], fact))[:1]
    return [fact for fact in worst if kept_best[fact] > least]


def changes_table(changes: Mapping[str, Sequence[Change]]) -> list[dict[str, Any]]:
    """One row per fact or class, most forgotten first, with every method's before and after."""
    by_method = {label: {change.name: change for change in listed} for label, listed in changes.items()}
    task = {change.name: change.task for listed in changes.values() for change in listed}
    facts = most_forgotten(changes, len(task))
    return [{"fact": f, "task": task[f], "cells": [table.get(f) for table in by_method.values()]} for f in facts]


def telling_facts(changes: Mapping[str, Sequence[Change]], count: int, images: Mapping[str, int]) -> list[str]:
    """Facts that show the methods apart: well learned, lost by one and kept by another, of different tasks if possible.

    With a single method, simply those it lost most of. `images` says how many test images show each fact: those with
    very few make a poor picture.
    """
    scores: dict[str, tuple[float, str]] = {}
    for fact, task in {change.name: change.task for listed in changes.values() for change in listed}.items():
        found = [change for listed in changes.values() for change in listed if change.name == fact]
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
