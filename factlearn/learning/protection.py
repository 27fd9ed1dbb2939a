"""Before and after of what a run protects, from its networks' outputs on the test images at each stage."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from factlearn.data.tasks import choose_facts
from factlearn.evaluation.facts import RuleResult
from factlearn.evaluation.protection import KNOWN, PROTECTED, REST, SINCE, Fate, Protection
from factlearn.facts import Fact
from factlearn.learning.classes import GONE, class_names, test_predictions
from factlearn.learning.facts import evaluate_groups, test_vectors
from factlearn.learning.runs import Run

Pair = tuple[float | None, float | None]
Groups = Mapping[str, Sequence[Any]]
"""Facts, or pairs of a task's and a class's position, by the name of their group."""


def protection_of(run: Run) -> Protection | None:
    """Before and after of what the run protects; None if it protects nothing, or has not learned it yet."""
    adapted = run.description().get("adapted")
    source, only = _source(run)
    if source is None and adapted is None:
        return None
    last = run.check_stage()
    facts = run.config.learn == "facts"
    learned = (_facts_by_stage if facts else _classes_by_stage)(run, last)
    chosen = (_chosen_facts if facts else _chosen_classes)(run, source if isinstance(source, tuple) else ())
    first = int(adapted["stage"]) if adapted else _first(learned, chosen)
    if not first or first > last:
        return None
    kept = [each for each in learned[first - 1] if each in chosen]
    groups = {
        PROTECTED: kept,
        REST if kept else KNOWN: [each for each in learned[first - 1] if each not in chosen],
        SINCE: [each for each in learned[last - 1] if each not in learned[first - 1]],
    }
    groups = {name: members for name, members in groups.items() if members}
    judge = _fact_measures if facts else _class_measures
    then, now = judge(run, first, groups), judge(run, last, groups)
    return Protection(
        measure="MAP" if facts else "accuracy",
        galleries=("among its own images", "among all images") if facts else ("told the task", "not told"),
        only=only or bool(adapted and adapted.get("only")),
        names=tuple(str(each) if isinstance(each, Fact) else _class_title(run, each) for each in kept),
        began=run.stage(first)["tasks"][-1],
        ended=run.stage(last)["tasks"][-1],
        fates=[
            Fate(name, len(members), (None, None) if name == SINCE else then[name], now[name])
            for name, members in groups.items()
        ],
    )


def _source(run: Run) -> tuple[Any, bool]:
    """What the config protects, and whether that alone."""
    strategy = run.config.strategy
    if strategy.protected is not None:
        return strategy.protected, False
    alone = [source for source in strategy.importance_sources() if isinstance(source, tuple | Path)]
    return (alone[0], True) if len(alone) == 1 else (None, False)


def _first(learned: Sequence[Sequence[Any]], chosen: Sequence[Any]) -> int:
    """The first stage that has learned something of what is chosen; 0 if none has."""
    return next((stage for stage, known in enumerate(learned, 1) if set(known).intersection(chosen)), 0)


# Facts


def _facts_by_stage(run: Run, last: int) -> list[list[Fact]]:
    """The facts known after each stage."""
    taught = {task.name: task.facts for task in run.tasks().tasks}
    stages = (run.stage(stage)["tasks"] for stage in range(1, last + 1))
    return [list(dict.fromkeys(fact for name in names for fact in taught[name])) for names in stages]


def _chosen_facts(run: Run, names: Sequence[str]) -> list[Fact]:
    return choose_facts(names, run.data.of_split("train").facts) if names else []


def _fact_measures(run: Run, stage: int, groups: Groups) -> dict[str, Pair]:
    """MAP of each group among its own test images and among all, exact relevance."""
    found: RuleResult = evaluate_groups(run.data, run.language(), groups, test_vectors(run, stage)).exact
    return {name: (found.tasks[name].map, found.subsets[name].map) for name in groups}


# Classes


def _classes_by_stage(run: Run, last: int) -> list[list[tuple[int, int]]]:
    """The positions of the classes known after each stage."""
    names = class_names(run)
    counts = [len(run.stage(stage)["tasks"]) for stage in range(1, last + 1)]
    return [[(task, label) for task in range(count) for label in range(len(names[task][1]))] for count in counts]


def _chosen_classes(run: Run, names: Sequence[str]) -> list[tuple[int, int]]:
    return [run.data.find_class(name) for name in names]


def _class_title(run: Run, place: tuple[int, int]) -> str:
    task, classes = class_names(run)[place[0]]
    return f"{task}/{classes[place[1]]}"


def _class_measures(run: Run, stage: int, groups: Groups) -> dict[str, Pair]:
    """Accuracy on each group's test images, told their task and not."""
    said = test_predictions(run, stage)
    return {name: _accuracies(run, said, [place for place in places if place[0] < len(said)])
            for name, places in groups.items()}  # fmt: skip


def _accuracies(run: Run, said: Sequence[Any], places: Sequence[tuple[int, int]]) -> Pair:
    told, free = [], []
    for task, label in places:
        of_class = (run.data.tasks[task].test.labels == label) & (said[task].own != GONE)
        told.append(said[task].own[of_class] == label)
        free.append((said[task].free_task[of_class] == task) & (said[task].free_class[of_class] == label))
    images = sum(map(len, told))
    return (float(np.concatenate(told).mean()), float(np.concatenate(free).mean())) if images else (None, None)
