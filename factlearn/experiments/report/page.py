"""Putting the page together: every section from the runs, the plots also as files beside it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factlearn.assembly import fact_embeddings
from factlearn.errors import RunError
from factlearn.experiments import cost_plots, plots
from factlearn.experiments.comparison import paired_tests, score_methods, scores_rows, tests_rows
from factlearn.experiments.figures import SVG_STYLE, Plot
from factlearn.experiments.importance_plots import choose_layer, histogram, load_omega, scatter
from factlearn.experiments.naming import at_once, first_of_each, group_runs, method_title
from factlearn.experiments.per_fact import FactChange, fact_changes_of, most_forgotten, telling_facts
from factlearn.experiments.projection import facts_to_project, project
from factlearn.experiments.report.pictures import gallery
from factlearn.experiments.report.words import forgotten_share, summary
from factlearn.facts import Relevance
from factlearn.files import atomic_write
from factlearn.results import RunResult

MOST_METHODS = 5
QUERIES = 4


@dataclass
class Section:
    """The plots of the page, by name, kept for their files too."""

    plots: dict[str, Plot] = field(default_factory=dict)

    def add(self, plot: Plot | None) -> Plot | None:
        """Keep a plot; None passes through."""
        if plot is not None:
            self.plots[plot.name] = plot
        return plot


def write_report(
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
    from jinja2 import Environment, PackageLoader

    if not results:
        raise RunError("A report needs at least one run.")
    groups = group_runs(results)
    shown = _shown(groups)
    kept = Section()
    page = _context(groups, shown, kept, queries, k)
    folder = path.with_name(f"{path.stem}-files")
    environment = Environment(loader=PackageLoader("factlearn.experiments"), autoescape=True, trim_blocks=True)
    text = environment.get_template("report.html").render(
        title=title or "What was learned, and what was forgotten", files=folder.name, plots=kept.plots, **page
    )
    for plot in kept.plots.values():
        plot.save(folder)
    with atomic_write(path) as stream:
        stream.write(text)
    return [path, folder]


def _shown(groups: Mapping[str, Sequence[RunResult]]) -> dict[str, RunResult]:
    """One run a method for the details: of one seed, over the same tasks, of a sweep of lambda the best only."""
    best: dict[str, str] = {}
    for label, group in groups.items():
        title = method_title(group[0].run.config)
        if title not in best or _mean_map(groups[best[title]]) < _mean_map(group):
            best[title] = label
    several = len(groups) > MOST_METHODS
    kept = {label: list(group) for label, group in groups.items() if not several or label in best.values()}
    shown = first_of_each(kept)
    tasks = {label: [task.facts for task in result.tasks.tasks] for label, result in shown.items()}
    first = next(iter(tasks))
    for label, listed in tasks.items():
        if sorted(map(set, listed), key=sorted) != sorted(map(set, tasks[first]), key=sorted):
            raise RunError(
                f"A report needs runs over the same tasks; {shown[first].run.folder} and {shown[label].run.folder} "
                "split the facts differently. Give runs that share a split."
            )
    return shown


def _mean_map(group: Sequence[RunResult]) -> float:
    return sum(result.final.map_all or 0.0 for result in group) / len(group)


def _context(
    groups: Mapping[str, Sequence[RunResult]],
    shown: Mapping[str, RunResult],
    kept: Section,
    queries: Sequence[str],
    k: int,
) -> dict[str, Any]:
    changes = {label: listed for label, result in shown.items() if (listed := fact_changes_of(result))}
    scores, tests = score_methods(groups), paired_tests(groups)
    first = next(iter(shown.values()))
    tasks = [task.name for task in first.tasks.tasks]
    kept.add(plots.curves(shown, [None], "curves-all"))
    for place, name in enumerate(tasks[:-1] if len(tasks) > 1 else [], 1):
        kept.add(plots.curves(shown, [name], f"curves-{place}"))
    for name in first.run.config.evaluation.subsets:
        kept.add(plots.curves(shown, [name], f"curves-{name}"))
    kept.add(plots.heat_map(shown))
    kept.add(plots.forgetting_bars(shown))
    if changes:
        kept.add(plots.fact_changes(changes, most_forgotten(changes, 16)))
    kept.add(cost_plots.memory_bars({label: result.run for label, result in shown.items()}))
    kept.add(cost_plots.lambda_curve([result for group in groups.values() for result in group]))
    kept.add(project(shown, facts_to_project(first)))
    _importance(shown, kept)
    kept.add(_dendrogram(first))
    asked = list(queries) or telling_facts(changes, QUERIES, _test_images(first))
    return {
        "summary": summary(shown, scores, tests, changes),
        "tasks": _tasks(first),
        "typical": any(task.typical for task in first.tasks.tasks),
        "matrices": [_matrix(label, result) for label, result in shown.items()],
        "galleries": [gallery(shown, text, k) for text in asked],
        "forgotten": [_forgotten(label, listed) for label, listed in changes.items()],
        "every_fact": _every_fact(changes),
        "methods": list(changes),
        "scores": scores_rows(scores),
        "tests": tests_rows(tests),
        "seeds": max(len(group) for group in groups.values()),
        "timings": cost_plots.timings(shown),
        "runs": [_run(label, result) for label, result in shown.items()],
        "owners": first.run.config.data.source == "emoji",
    }


def _test_images(result: RunResult) -> Counter[str]:
    return Counter(str(sample.fact) for sample in result.dataset.of_split("test").samples)


def _tasks(result: RunResult) -> list[dict[str, Any]]:
    return [
        {"name": task.name, "facts": len(task.facts), "typical": [str(f) for f in (task.typical or task.facts)[:5]]}
        for task in result.tasks.tasks
    ]


def _dendrogram(result: RunResult) -> Plot | None:
    """The tree that the tasks were cut from, where they were."""
    import tempfile

    import matplotlib

    from factlearn.tasks import plot_dendrogram

    if result.tasks.method != "agglomerative":
        return None
    facts = [fact for task in result.tasks.tasks for fact in task.facts]
    with tempfile.TemporaryDirectory() as folder, matplotlib.rc_context(SVG_STYLE):
        drawn = Path(folder) / "tree.svg"
        plot_dendrogram(result.tasks, fact_embeddings(facts, result.language), drawn)
        svg = drawn.read_text(encoding="utf-8")
    rows = [[str(fact), task.name] for task in result.tasks.tasks for fact in task.facts]
    return Plot("dendrogram", svg[svg.index("<svg") :], ("fact", "task"), rows, "A tree of the facts by meaning.")


def _importance(shown: Mapping[str, RunResult], kept: Section) -> None:
    """Histogram of the first run that keeps importance; scatter against another's, or against its own last stage."""
    found = []
    for label, result in shown.items():
        try:
            found.append((label, result, choose_layer(load_omega(result.run, 1), None)))
        except RunError:
            continue
    if not found:
        return
    label, result, omega = found[0]
    after = result.learned[0][-1]
    kept.add(histogram(omega, f"{label}, after {after}"))
    others = [(name, values) for name, _, values in found[1:] if values.shape == omega.shape]
    if others:
        kept.add(scatter(omega, others[0][1], (f"{label}, after {after}", f"{others[0][0]}, after {after}")))
    elif len(result.evaluations) > 1:
        last = choose_layer(load_omega(result.run), None)
        kept.add(scatter(omega, last - omega, (f"{label}, {after}", f"{label}, the tasks after it")))


def _matrix(label: str, result: RunResult) -> dict[str, Any]:
    rows = []
    stages = zip(result.matrix(Relevance.EXACT), result.learned, result.evaluations, strict=True)
    for values, learned, evaluation in stages:
        cells = [None if value is None else (f"{value:.3f}", f"{0.95 * value:.2f}") for value in values]
        after = "all at once" if at_once(result) else learned[-1]
        rows.append({"after": after, "cells": cells, "all": f"{evaluation.map_all:.3f}"})
    lost = result.forgetting(Relevance.EXACT)
    return {
        "method": label,
        "tasks": [task.name for task in result.tasks.tasks],
        "rows": rows,
        "forgetting": None if lost is None or not lost.per_task else f"{lost.average:.3f}",
    }


def _forgotten(label: str, listed: Sequence[FactChange], count: int = 10) -> dict[str, Any]:
    return {"method": label, "sentence": forgotten_share(listed), "rows": listed[:count]}


def _every_fact(changes: Mapping[str, Sequence[FactChange]]) -> list[dict[str, Any]]:
    """A row a fact, most forgotten first, with every method's before and after."""
    by_method = {label: {change.fact: change for change in listed} for label, listed in changes.items()}
    facts = most_forgotten(changes, 10**6)
    task = {change.fact: change.task for listed in changes.values() for change in listed}
    return [{"fact": f, "task": task[f], "cells": [table.get(f) for table in by_method.values()]} for f in facts]


def _run(label: str, result: RunResult) -> dict[str, Any]:
    about = result.run.description()
    return {
        "method": label,
        "folder": str(result.run.folder),
        "seed": result.run.config.seed,
        "versions": about.get("versions", {}),
        "data": f"{about.get('data', result.dataset.name)}, {len(result.dataset.of_split('train'))} training and "
        f"{len(result.dataset.of_split('test'))} test images, fingerprint {about.get('data_fingerprint', '-')}",
        "config": result.run.config.to_yaml(),
    }
