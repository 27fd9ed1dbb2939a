"""The report on classifiers: as that on facts, with test images and the classes they are given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from factlearn.classification.results import ClassResult
from factlearn.data.classes import ClassTask, Pictures
from factlearn.errors import RunError
from factlearn.experiments import cost_plots, plots
from factlearn.experiments.comparison import Spread
from factlearn.experiments.course import Course, courses_of
from factlearn.experiments.naming import explained, first_of_each, group_runs
from factlearn.experiments.per_fact import FactChange, changes_table, most_forgotten, telling_facts
from factlearn.experiments.report.pictures import Found, Moment, Retrieved, thumbnail
from factlearn.experiments.report.sections import TITLE, Plots, about_run, learned_how, matrix_rows, write_page
from factlearn.experiments.report.words import NOTICEABLE, forgotten_share

CLASSES = 4
COLUMNS = ("method", "seeds", "average accuracy", "average forgetting", "just after learning", "not told the task")


@dataclass(frozen=True)
class ClassGallery:
    """What became of one class: its test images after each task from its own on, and where all was learned at once."""

    name: str
    task: str
    images: int
    moments: list[Moment]
    reference: list[Found]
    sentence: str


def write_class_report(
    results: Sequence[ClassResult], path: Path, *, title: str | None = None, k: int = 8
) -> list[Path]:
    """Write the page, and beside it a folder with every plot as SVG and its numbers as CSV.

    Args:
        results: runs over the same tasks.
        path: the .html file.
        title: its heading.
        k: how many test images of a class are shown.

    Returns:
        The page and the folder.

    Raises:
        RunError: if there is no run, or the runs are over different tasks.
    """
    groups = group_runs(results)
    shown = first_of_each(groups)
    first = next(iter(shown.values()))
    for result in shown.values():
        if result.tasks != first.tasks:
            raise RunError(f"A report needs runs over the same tasks; {result.run.folder} has others.")
    courses, kept = courses_of(shown), Plots()
    changes = {label: listed for label, result in shown.items() if (listed := class_changes(result))}
    kept.add_courses(courses)
    if changes:
        worst = most_forgotten(changes, 16)
        kept.add(plots.fact_changes(changes, worst, kind="class", measure="accuracy"))
    kept.add(cost_plots.memory_bars({label: result.run for label, result in shown.items()}))
    images = {_title(task, label): int(np.sum(task.test.labels == label)) for task, label in _classes(first)}
    return write_page(
        "classes.html",
        path,
        kept,
        title=title or TITLE,
        summary=_summary(courses, changes),
        explained=explained(shown),
        tasks=[{"name": t.name, "classes": len(t.classes), "some": t.classes[:5]} for t in first.sequence.tasks],
        matrices=[matrix_rows(label, course) for label, course in courses.items()],
        galleries=_galleries(shown, telling_facts(changes, CLASSES, images), k),
        forgotten=[
            {"method": label, "sentence": forgotten_share(listed, "classes", "accuracy"), "rows": listed[:10]}
            for label, listed in changes.items()
        ],
        every_class=changes_table(changes),
        methods=list(changes),
        columns=COLUMNS,
        scores=[_score(label, group) for label, group in groups.items()],
        seeds=max(len(group) for group in groups.values()),
        timings=cost_plots.timings({label: result.run for label, result in shown.items()}),
        runs=[about_run(label, result.run, _data(result)) for label, result in shown.items()],
        owners=first.run.config.data.source == "emoji8",
        shared_head=first.run.config.model.heads == "shared",
        **learned_how(courses),
    )


def class_changes(result: ClassResult) -> list[FactChange]:
    """Every class learned before the last stage, most forgotten first; empty where all was learned at once."""
    if not result.sequential:
        return []
    found = []
    last = len(result.predictions)
    for place, task in enumerate(result.sequence.tasks[: last - 1]):
        for label in sorted(set(task.test.labels.tolist())):
            then, now = (_right(result, place, label, stage).mean() for stage in (place + 1, last))
            found.append(FactChange(_title(task, label), task.name, float(then), float(now)))
    return sorted(found, key=lambda change: (-change.lost, change.fact))


def _right(result: ClassResult, place: int, label: int, stage: int) -> Any:
    """Which test images of a class are given it, by the task's own head, after a stage."""
    labels = result.sequence.tasks[place].test.labels
    return result.predictions[stage - 1][place].own[labels == label] == label


def _title(task: ClassTask, label: int) -> str:
    return f"{task.classes[label]} ({task.name})"


def _classes(result: ClassResult) -> list[tuple[ClassTask, int]]:
    return [(task, label) for task in result.sequence.tasks for label in range(len(task.classes))]


def _galleries(shown: Mapping[str, ClassResult], names: Sequence[str], k: int) -> list[ClassGallery]:
    """Of these classes; none where inputs are not pictures."""
    first = next(iter(shown.values()))
    by_name = {_title(task, label): (place, label)
               for place, task in enumerate(first.sequence.tasks) for label in range(len(task.classes))}  # fmt: skip
    return [_gallery(shown, name, *by_name[name], k) for name in names
            if isinstance(first.sequence.tasks[by_name[name][0]].test, Pictures)]  # fmt: skip


def _gallery(shown: Mapping[str, ClassResult], name: str, place: int, label: int, k: int) -> ClassGallery:
    tasks = next(iter(shown.values())).sequence.tasks
    in_turn = {method: result for method, result in shown.items() if result.sequential}
    moments = []
    for stage in range(place + 1, len(tasks) + 1):
        there = {method: result for method, result in in_turn.items() if stage <= len(result.predictions)}
        cells = [_found(method, result, place, label, stage, k) for method, result in there.items()]
        moments.append(Moment(tasks[stage - 1].name, cells))
    moments = [moment for moment in moments if moment.found]
    reference = [
        _found(method, result, place, label, 1, k) for method, result in shown.items() if method not in in_turn
    ]
    after = {method: [c.right for m in moments for c in m.found if c.method == method] for method in in_turn}
    parts = [f"{method} {', '.join(map(str, counts))}" for method, counts in after.items() if counts]
    images = int(np.sum(tasks[place].test.labels == label))
    sentence = f"Right, task after task: {'; '.join(parts)}." if parts else ""
    return ClassGallery(name, tasks[place].name, images, moments, reference, sentence)


def _found(method: str, result: ClassResult, place: int, label: int, stage: int, k: int) -> Found:
    task = result.sequence.tasks[place]
    given = result.predictions[stage - 1][place].own
    rows = np.flatnonzero(task.test.labels == label)[:k]
    paths = task.test.paths  # type: ignore[union-attr]
    images = [Retrieved(thumbnail(paths[row]), task.classes[given[row]], bool(given[row] == label)) for row in rows]
    taken = list(dict.fromkeys(image.label for image in images if not image.right))
    return Found(method, images, True, len(images), "right", f"taken for {', '.join(taken)}" if taken else "")


def _summary(courses: Mapping[str, Course], changes: Mapping[str, Sequence[FactChange]]) -> list[str]:
    """Who ended where, what was lost, which classes were hit."""
    sentences = []
    for label, course in courses.items():
        text = f"{label} ends with {course.whole[-1]:.3f} accuracy, the average of {len(course.learned[-1])} tasks"
        if course.at_once:
            bound = ", so it is the bound the others aim for" if len(courses) > 1 else ""
            text += f"; it saw all tasks at once{bound}"
        elif course.lost and course.lost.per_task and course.lost.average <= 0:
            text += "; it lost nothing of the tasks before the last on average"
        elif course.lost and course.lost.per_task:
            lost = course.lost.per_task
            worst = max(range(len(lost)), key=lambda place: lost[place])
            text += f"; on the tasks before the last it lost {course.lost.average:.3f} on average, "
            text += f"most on “{course.tasks[worst]}” ({lost[worst]:.2f})"
        sentences.append(f"{text}.")
    for label, listed in changes.items():
        hit = [f"{c.fact} ({c.then:.2f} → {c.now:.2f})" for c in listed[:3] if c.lost > NOTICEABLE]
        examples = f" Hit hardest: {', '.join(hit)}." if hit else ""
        sentences.append(f"With {label}, {forgotten_share(listed, 'classes', 'accuracy')}.{examples}")
    return sentences


def _score(label: str, group: Sequence[ClassResult]) -> list[str]:
    lost = [result.forgetting.average for result in group if result.forgetting and result.forgetting.per_task]
    learned = [result.learned for result in group if result.learned is not None]
    measures = ([result.average for result in group], lost, learned, [result.task_free_average for result in group])
    return [label, str(len(group)), *(str(Spread.of(values) or "–") for values in measures)]


def _data(result: ClassResult) -> str:
    train, test = (sum(len(getattr(t, side)) for t in result.sequence.tasks) for side in ("train", "test"))
    return f"{result.sequence.name}, {train} training and {test} test images"
