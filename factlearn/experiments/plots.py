"""Plots of what was remembered and forgotten."""

from collections.abc import Mapping, Sequence
from typing import Any

from factlearn.experiments.figures import COLOURS, GREY, Plot, new_figure, style_of, svg_of, tidy
from factlearn.experiments.naming import at_once
from factlearn.experiments.per_fact import FactChange
from factlearn.facts import Relevance
from factlearn.results import RunResult

ALL_TITLE = "All test images"


def curves(results: Mapping[str, RunResult], tasks: Sequence[str | None], name: str = "curves") -> Plot:
    """MAP after each stage, a line a method, a panel a task or subset; None stands for the whole test set.

    A method that learned all tasks at once is a dashed level line.
    """
    figure = new_figure(4.6 * len(tasks), 3.2)
    for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        _draw_curves(axes, results, task)
    rows = [
        [method, task or "all", after, value]
        for task in tasks
        for method, result in results.items()
        for after, value in _points(result, task)
    ]
    return Plot(name, svg_of(figure), ("method", "test images of", "tasks learned", "MAP"), rows,
                "Lines: mean average precision after each task, one line a method.")  # fmt: skip


def curves_svg(results: Mapping[str, RunResult], tasks: Sequence[str | None]) -> str:
    """The picture of `curves` alone."""
    return curves(results, tasks).svg


def _draw_curves(axes: Any, results: Mapping[str, RunResult], task: str | None) -> None:
    steps = max((result.tasks.tasks for result in results.values()), key=len)
    names = [step.name for step in steps]
    for place, (method, result) in enumerate(results.items()):
        points = _points(result, task)
        style = style_of(place)
        if at_once(result):
            axes.axhline(points[0][1], color=style["color"], linestyle="--", linewidth=1.5, label=method)
        elif points:
            axes.plot(*zip(*points, strict=True), **style, linewidth=2, label=method)
    axes.set_xticks(range(1, len(names) + 1), [f"after\n{name}" for name in names])
    axes.set_xlim(0.7, len(names) + 0.3)
    axes.set_ylim(0, 1)
    axes.set_ylabel("MAP")
    title = f"Test images of “{task}”" if task in names else f"The facts of “{task}”"
    axes.set_title(ALL_TITLE if task is None else title, fontsize=11)
    axes.grid(axis="y", alpha=0.3)
    tidy(axes)
    axes.legend(frameon=False, fontsize=9)


def _points(result: RunResult, task: str | None) -> list[tuple[int, float]]:
    """How many tasks were learned, and the MAP then."""
    if task is None:
        values = [evaluation.map_all for evaluation in result.evaluations]
    elif task in (names := [step.name for step in result.tasks.tasks]):
        values = [row[names.index(task)] for row in result.matrix(Relevance.EXACT)]
    else:
        values = [found.map if (found := e.exact.subsets.get(task)) else None for e in result.evaluations]
    return [(len(names), value) for names, value in zip(result.learned, values, strict=True) if value is not None]


def heat_map(results: Mapping[str, RunResult]) -> Plot:
    """MAP of every task (columns) after each stage (rows), a panel a method."""
    panels = list(results.items())
    tasks = [task.name for task in panels[0][1].tasks.tasks]
    figure = new_figure(1.2 + 2.9 * len(panels), 1.2 + 0.45 * len(tasks))
    rows: list[list[Any]] = []
    for axes, (method, result) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        matrix = result.matrix(Relevance.EXACT)
        after = ["all at once" if at_once(result) else names[-1] for names in result.learned]
        shown = [[float("nan") if value is None else value for value in row] for row in matrix]
        axes.imshow(shown, cmap="cividis", vmin=0, vmax=1, aspect="auto")
        for i, row in enumerate(matrix):
            for j, value in enumerate(row):
                rows.append([method, after[i], tasks[j], value])
                if value is not None:
                    ink = "black" if value > 0.5 else "white"
                    axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=9, color=ink)
        axes.set_xticks(range(len(tasks)), tasks, fontsize=8, rotation=20)
        axes.set_yticks(range(len(after)), [f"after {name}" for name in after], fontsize=8)
        axes.set_title(method, fontsize=11)
        axes.spines[:].set_visible(False)
    return Plot("map-matrix", svg_of(figure), ("method", "after learning", "task", "MAP"), rows,
                "Heat maps: mean average precision of each task after each task.")  # fmt: skip


def forgetting_bars(results: Mapping[str, RunResult]) -> Plot | None:
    """What each method lost of each task but the last: the best it ever had minus what is left."""
    lost = {method: found for method, result in results.items() if (found := result.forgetting(Relevance.EXACT))}
    lost = {method: found for method, found in lost.items() if found.per_task}
    if not lost:
        return None
    tasks = [task.name for task in next(iter(results.values())).tasks.tasks]
    rows = [[method, tasks[place], value] for method, f in lost.items() for place, value in enumerate(f.per_task)]
    rows += [[method, "average", found.average] for method, found in lost.items()]
    groups = [*dict.fromkeys(row[1] for row in rows if row[1] != "average"), "average"]
    figure = new_figure(max(4.6, 1.3 * len(groups) + 1.5), 3)
    axes = figure.add_subplot()
    width = 0.8 / len(lost)
    for place, method in enumerate(results):
        if method not in lost:
            continue
        order = list(lost).index(method)
        values = {row[1]: row[2] for row in rows if row[0] == method}
        at = [groups.index(group) + (order - (len(lost) - 1) / 2) * width for group in values]
        bars = axes.bar(at, list(values.values()), width * 0.92, label=method, color=COLOURS[place % len(COLOURS)],
                        hatch=("", "//", "..", "xx")[order % 4], edgecolor="white")  # fmt: skip
        axes.bar_label(bars, fmt="%.2f", fontsize=8)
    axes.set_xticks(range(len(groups)), groups)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_ylabel("MAP lost")
    axes.set_title("Lower is better", fontsize=10)
    axes.legend(frameon=False, fontsize=9)
    tidy(axes)
    return Plot("forgetting", svg_of(figure), ("method", "task", "MAP lost"), rows,
                "Bars: how much of each task every method lost by the end.")  # fmt: skip


def fact_changes(changes: Mapping[str, Sequence[FactChange]], facts: Sequence[str]) -> Plot:
    """Some facts' average precision just after they were learned (hollow) and at the end (filled), a row a fact."""
    figure = new_figure(6.4, 1.1 + 0.27 * len(facts) * max(1, len(changes) ** 0.5))
    axes = figure.add_subplot()
    rows = []
    step = 0.7 / len(changes)
    for place, (method, listed) in enumerate(changes.items()):
        by_fact = {change.fact: change for change in listed}
        style = style_of(place)
        for row, fact in enumerate(facts):
            change = by_fact.get(fact)
            if change is None:
                continue
            y = row + (place - (len(changes) - 1) / 2) * step
            axes.annotate("", (change.now, y), (change.then, y),
                          arrowprops={"arrowstyle": "->", "color": style["color"], "linewidth": 1.4})  # fmt: skip
            axes.plot([change.then], [y], style["marker"], color=style["color"], markersize=5, fillstyle="none")
            label = method if row == 0 else None
            axes.plot([change.now], [y], style["marker"], color=style["color"], markersize=6, label=label)
        rows += [[method, c.fact, c.task, c.then, c.now, c.lost] for c in listed]
    axes.set_yticks(range(len(facts)), facts, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("average precision: hollow when just learned, filled at the end")
    axes.grid(axis="x", alpha=0.3)
    tidy(axes)
    figure.legend(loc="outside upper center", frameon=False, fontsize=9, ncols=4)
    header = ("method", "fact", "task", "AP just after learning", "AP at the end", "AP lost")
    return Plot("facts", svg_of(figure), header, rows, "Arrows: each fact from when it was just learned to the end.")
