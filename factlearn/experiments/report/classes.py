"""The report on classifiers: as that on facts, with test images and the classes they are given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from factlearn.data.classes import ClassTask
from factlearn.errors import RunError
from factlearn.evaluation.classes import Predictions
from factlearn.evaluation.results import RunResult
from factlearn.experiments import cost_plots, plots
from factlearn.experiments.changes import changes_of, changes_table, class_title, most_forgotten, telling_facts
from factlearn.experiments.comparison import CLASS_COLUMNS, paired_tests, score_methods, scores_rows, tests_rows
from factlearn.experiments.naming import explained, group_runs, shown_runs
from factlearn.experiments.report.pictures import Found, Moment, Retrieved, thumbnail
from factlearn.experiments.report.sections import (
    TITLE,
    Plots,
    about_run,
    forgotten,
    learned_how,
    matrix_rows,
    notice_of,
    protections,
    write_page,
)
from factlearn.experiments.report.words import summary
from factlearn.learning.classes import test_predictions

CLASSES = 4


@dataclass(frozen=True)
class ClassGallery:
    """What became of one class: its test images after each task from its own on, and where all was learned at once."""

    name: str
    task: str
    images: int
    moments: list[Moment]
    reference: list[Found]
    sentence: str


def write_class_report(results: Sequence[RunResult], path: Path, *, title: str | None = None, k: int = 8) -> list[Path]:
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
    shown = shown_runs(groups)
    first = next(iter(shown.values()))
    for result in shown.values():
        if result.tasks != first.tasks:
            raise RunError(f"A report needs runs over the same tasks; {result.run.folder} has others.")
    scores, tests = score_methods(groups), paired_tests(groups)
    kept = Plots()
    changes = {label: listed for label, result in shown.items() if (listed := changes_of(result))}
    kept.add_courses(shown)
    if changes:
        worst = most_forgotten(changes, 16)
        kept.add(plots.fact_changes(changes, worst, kind="class", measure="accuracy"))
    kept.add(cost_plots.memory_bars(shown))
    kept.add(cost_plots.lambda_curve(results))
    images = {class_title(task, label): int(np.sum(task.test.labels == label)) for task, label in _classes(first)}
    return write_page(
        "classes.html",
        path,
        kept,
        title=title or TITLE,
        summary=summary(shown, scores, tests, changes),
        explained=explained(shown),
        tasks=[{"name": t.name, "classes": len(t.classes), "some": t.classes[:5]} for t in first.run.data.tasks],
        matrices=[matrix_rows(label, result) for label, result in shown.items()],
        protections=protections(shown),
        galleries=_galleries(shown, telling_facts(changes, CLASSES, images), k),
        forgotten=forgotten(changes, "classes"),
        every_class=changes_table(changes),
        methods=list(changes),
        columns=CLASS_COLUMNS,
        scores=scores_rows(scores),
        tests=tests_rows(tests),
        seeds=max(len(group) for group in groups.values()),
        timings=cost_plots.timings(shown),
        runs=[about_run(label, result.run, _data(result)) for label, result in shown.items()],
        notice=notice_of(first.run),
        shared_head=first.run.config.model.heads == "shared",
        **learned_how(shown),
    )


def _classes(result: RunResult) -> list[tuple[ClassTask, int]]:
    return [(task, label) for task in result.run.data.tasks for label in range(len(task.classes))]


def _galleries(shown: Mapping[str, RunResult], names: Sequence[str], k: int) -> list[ClassGallery]:
    """Of these classes; none where inputs are not pictures."""
    first = next(iter(shown.values()))
    if first.run.data.row_length is not None:
        return []
    by_name = {class_title(task, label): (place, label)
               for place, task in enumerate(first.run.data.tasks) for label in range(len(task.classes))}  # fmt: skip
    said = {
        method: [test_predictions(result.run, stage) for stage in range(1, len(result.learned) + 1)]
        for method, result in shown.items()
    }
    return [_gallery(shown, said, name, *by_name[name], k) for name in names]


def _gallery(
    shown: Mapping[str, RunResult],
    said: Mapping[str, list[list[Predictions]]],
    name: str,
    place: int,
    label: int,
    k: int,
) -> ClassGallery:
    tasks = next(iter(shown.values())).run.data.tasks
    in_turn = [method for method, result in shown.items() if result.in_turn]
    moments = []
    for stage in range(place + 1, len(tasks) + 1):
        there = [method for method in in_turn if stage <= len(said[method])]
        cells = [_found(method, tasks[place], said[method][stage - 1][place], label, k) for method in there]
        moments.append(Moment(tasks[stage - 1].name, cells))
    moments = [moment for moment in moments if moment.found]
    reference = [
        _found(method, tasks[place], said[method][0][place], label, k) for method in shown if method not in in_turn
    ]
    after = {method: [c.right for m in moments for c in m.found if c.method == method] for method in in_turn}
    parts = [f"{method} {', '.join(map(str, counts))}" for method, counts in after.items() if counts]
    images = int(np.sum(tasks[place].test.labels == label))
    sentence = f"Right, task after task: {'; '.join(parts)}." if parts else ""
    return ClassGallery(name, tasks[place].name, images, moments, reference, sentence)


def _found(method: str, task: ClassTask, said: Predictions, label: int, k: int) -> Found:
    rows = np.flatnonzero((task.test.labels == label) & (said.own >= 0))[:k]
    paths = task.test.paths  # type: ignore[union-attr]
    images = [
        Retrieved(thumbnail(paths[row]), task.classes[said.own[row]], bool(said.own[row] == label)) for row in rows
    ]
    taken = list(dict.fromkeys(image.label for image in images if not image.right))
    return Found(method, images, True, len(images), "right", f"taken for {', '.join(taken)}" if taken else "")


def _data(result: RunResult) -> str:
    tasks = result.run.data.tasks
    train, test = (sum(len(getattr(task, side)) for task in tasks) for side in ("train", "test"))
    return f"{result.run.data.name}, {train} training and {test} test images"
