"""Putting the page together: every section from the runs, the plots also as files beside it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factlearn.data.tasks import fact_embeddings
from factlearn.errors import RunError
from factlearn.evaluation.results import RunResult
from factlearn.experiments import cost_plots, plots
from factlearn.experiments.changes import (
    changes_of,
    changes_table,
    lost_by_all,
    most_forgotten,
    telling_facts,
)
from factlearn.experiments.comparison import FACT_COLUMNS, paired_tests, score_methods, scores_rows, tests_rows
from factlearn.experiments.figures import SVG_STYLE, Plot
from factlearn.experiments.importance_plots import choose_layer, histogram, load_omega, scatter
from factlearn.experiments.naming import explained, group_runs, shown_runs
from factlearn.experiments.projection import facts_to_project, project
from factlearn.experiments.report.pictures import gallery
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

QUERIES = 4


def write_fact_report(
    results: Sequence[RunResult],
    path: Path,
    *,
    title: str | None = None,
    queries: Sequence[str] = (),
    k: int = 8,
) -> list[Path]:
    """Write the page, and beside it a folder with every plot as SVG and its numbers as CSV.

    Args:
        results: runs over the same data; the details are of runs over the same tasks.
        path: the .html file.
        title: its heading.
        queries: facts whose images are shown as found after each task; the most telling ones if not given.
        k: how many images of each query are shown.

    Returns:
        The page and the folder.

    Raises:
        RunError: if there is no run, or the runs are over different tasks.
    """
    groups = group_runs(results)
    shown = _shown(groups)
    kept = Plots()
    page = _context(groups, shown, kept, queries, k)
    return write_page("report.html", path, kept, title=title or TITLE, **page)


def _shown(groups: Mapping[str, Sequence[RunResult]]) -> dict[str, RunResult]:
    """One run per method for the details, all over the same tasks."""
    shown = shown_runs(groups)
    tasks = {label: [task.facts for task in result.run.tasks().tasks] for label, result in shown.items()}
    first = next(iter(tasks))
    for label, listed in tasks.items():
        if sorted(map(set, listed), key=sorted) != sorted(map(set, tasks[first]), key=sorted):
            raise RunError(
                f"A report needs runs over the same tasks; {shown[first].run.folder} and {shown[label].run.folder} "
                "split the facts differently. Give runs that share a split."
            )
    return shown


def _context(
    groups: Mapping[str, Sequence[RunResult]],
    shown: Mapping[str, RunResult],
    kept: Plots,
    queries: Sequence[str],
    k: int,
) -> dict[str, Any]:
    changes = {label: listed for label, result in shown.items() if (listed := changes_of(result))}
    scores, tests = score_methods(groups), paired_tests(groups)
    first = next(iter(shown.values()))
    kept.add_courses(shown)
    if changes:
        kept.add(plots.fact_changes(changes, most_forgotten(changes, 16)))
    kept.add(cost_plots.memory_bars(shown))
    kept.add(cost_plots.lambda_curve([result for group in groups.values() for result in group]))
    kept.add(project(shown, facts_to_project(first)))
    _importance(shown, kept)
    kept.add(_dendrogram(first))
    telling = [*telling_facts(changes, QUERIES, _test_images(first)), *lost_by_all(changes)]
    asked = list(queries) or list(dict.fromkeys(telling))
    return {
        "summary": summary(shown, scores, tests, changes),
        "explained": explained(shown),
        "tasks": _tasks(first),
        "typical": any(task.typical for task in first.run.tasks().tasks),
        "matrices": [matrix_rows(label, result) for label, result in shown.items()],
        "protections": protections(shown),
        "galleries": [gallery(shown, text, k) for text in asked],
        "forgotten": forgotten(changes, "facts"),
        "every_fact": changes_table(changes),
        "methods": list(changes),
        "columns": FACT_COLUMNS,
        "scores": scores_rows(scores),
        "tests": tests_rows(tests),
        **learned_how(shown),
        "seeds": max(len(group) for group in groups.values()),
        "timings": cost_plots.timings(shown),
        "runs": [about_run(label, result.run, _data(result)) for label, result in shown.items()],
        "notice": notice_of(first.run),
    }


def _test_images(result: RunResult) -> Counter[str]:
    return Counter(str(fact) for sample in result.run.data.of_split("test").samples for fact in sample.facts)


def _tasks(result: RunResult) -> list[dict[str, Any]]:
    return [
        {"name": task.name, "facts": len(task.facts), "typical": [str(f) for f in (task.typical or task.facts)[:5]]}
        for task in result.run.tasks().tasks
    ]


def _dendrogram(result: RunResult) -> Plot | None:
    """The tree that the tasks were cut from, where they were."""
    import tempfile

    import matplotlib

    from factlearn.experiments.dendrogram import plot_dendrogram

    split = result.run.tasks()
    if split.method != "agglomerative":
        return None
    facts = [fact for task in split.tasks for fact in task.facts]
    with tempfile.TemporaryDirectory() as folder, matplotlib.rc_context(SVG_STYLE):
        drawn = Path(folder) / "tree.svg"
        plot_dendrogram(split, fact_embeddings(facts, result.run.language()), drawn)
        svg = drawn.read_text(encoding="utf-8")
    rows = [[str(fact), task.name] for task in split.tasks for fact in task.facts]
    return Plot("dendrogram", svg[svg.index("<svg") :], ("fact", "task"), rows, "A tree of the facts by meaning.")


def _importance(shown: Mapping[str, RunResult], kept: Plots) -> None:
    """Histogram of the first run that keeps importance; scatter against another's, or against its own last stage."""
    measured = [(label, result, _omega(result, 1)) for label, result in shown.items()]
    found = [(label, result, omega) for label, result, omega in measured if omega is not None]
    if not found:
        return
    label, result, omega = found[0]
    after = result.learned[0][-1]
    kept.add(histogram(omega, f"{label}, after {after}"))
    others = [(name, values) for name, _, values in found[1:] if values.shape == omega.shape]
    if others:
        kept.add(scatter(omega, others[0][1], (f"{label}, after {after}", f"{others[0][0]}, after {after}")))
    elif len(result.evaluations) > 1 and (last := _omega(result, None)) is not None:
        kept.add(scatter(omega, last - omega, (f"{label}, {after}", f"{label}, the tasks after it")))


def _omega(result: RunResult, stage: int | None) -> NDArray[np.float32] | None:
    """The importance that a stage left, by default the last; None where the run keeps none."""
    try:
        return choose_layer(load_omega(result.run, stage), None)
    except RunError:
        return None


def _data(result: RunResult) -> str:
    train, test = (len(result.run.data.of_split(split)) for split in ("train", "test"))
    name = result.run.description().get("data", result.run.data.name)
    return f"{name}, {train} training and {test} test images"
