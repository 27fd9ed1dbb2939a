"""Plots of what was remembered and forgotten."""

from collections.abc import Mapping, Sequence
from typing import Any

from factlearn.evaluation.results import RunResult
from factlearn.experiments.changes import Change
from factlearn.experiments.figures import COLOURS, GREY, Plot, new_figure, style_of, svg_of, tidy


def points_of(result: RunResult, group: str | None) -> list[tuple[int, float]]:
    """How many tasks were learned, and the measure of a task, a subset or everything (None) then."""
    values = zip(result.learned, result.course(group), strict=True)
    return [(len(names), value) for names, value in values if value is not None]


def curves(results: Mapping[str, RunResult], groups: Sequence[str | None], name: str = "curves") -> Plot:
    """The measure after each stage, one line per method, one panel per task or subset; None stands for everything.

    A method that learned all tasks at once is a dashed level line.
    """
    figure = new_figure(4.6 * len(groups), 3.2)
    for axes, group in zip(figure.subplots(1, len(groups), squeeze=False)[0], groups, strict=True):
        _draw_curves(axes, results, group)
    rows = [
        [method, group or "all", after, value]
        for group in groups
        for method, result in results.items()
        for after, value in points_of(result, group)
    ]
    measure = next(iter(results.values())).measure
    return Plot(name, svg_of(figure), ("method", "test images of", "tasks learned", measure), rows,
                f"Lines: {measure} after each task, one line per method.")  # fmt: skip


def _draw_curves(axes: Any, results: Mapping[str, RunResult], group: str | None) -> None:
    first = next(iter(results.values()))
    names = max((result.tasks for result in results.values()), key=len)
    same_order = all(result.tasks == names[: len(result.tasks)] for result in results.values())
    for place, (method, result) in enumerate(results.items()):
        points = points_of(result, group)
        style = style_of(place)
        if result.at_once and points:
            axes.axhline(points[0][1], color=style["color"], linestyle="--", linewidth=1.5, label=method)
        elif points:
            axes.plot(*zip(*points, strict=True), **style, linewidth=2, label=method)
    axes.set_xticks(
        range(1, len(names) + 1),
        [f"after\n{name if same_order else n}" for n, name in enumerate(names, 1)],
        fontsize=10 if len(names) < 6 else 7,
    )
    axes.set_xlim(0.7, len(names) + 0.3)
    axes.set_ylim(0, 1)
    axes.set_ylabel(first.measure)
    title = f"Test images of “{group}”" if group in names else f"The facts of “{group}”"
    axes.set_title(first.whole_title if group is None else title, fontsize=11)
    axes.grid(axis="y", alpha=0.3)
    tidy(axes)
    axes.legend(frameon=False, fontsize=9)


def heat_map(results: Mapping[str, RunResult]) -> Plot:
    """The measure of every task (columns) after each stage (rows), one panel per method."""
    first = next(iter(results.values()))
    size = 0.45 * len(first.tasks)
    figure = new_figure(1.2 + max(2.9, size) * len(results), 1.2 + size)
    rows: list[list[Any]] = []
    for axes, (method, result) in zip(figure.subplots(1, len(results), squeeze=False)[0], results.items(), strict=True):
        after = result.moments
        tasks = result.tasks
        shown = [[float("nan") if value is None else value for value in row] for row in result.matrix()]
        axes.imshow(shown, cmap="cividis", vmin=0, vmax=1, aspect="auto")
        for i, row in enumerate(result.matrix()):
            for j, value in enumerate(row):
                rows.append([method, after[i], tasks[j], value])
                if value is not None:
                    ink = "black" if value > 0.5 else "white"
                    axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=9, color=ink)
        axes.set_xticks(range(len(tasks)), tasks, fontsize=8, rotation=20)
        axes.set_yticks(range(len(after)), [f"after {name}" for name in after], fontsize=8)
        axes.set_title(method, fontsize=11)
        axes.spines[:].set_visible(False)
    return Plot(f"{first.measure.lower()}-matrix", svg_of(figure), ("method", "after learning", "task", first.measure),
                rows, f"Heat maps: {first.measure} of each task after each task.")  # fmt: skip


def forgetting_bars(results: Mapping[str, RunResult]) -> Plot | None:
    """What each method lost of each task but the last: the best it ever had minus what is left."""
    lost = {method: found for method, result in results.items() if (found := result.forgetting()) and found.per_task}
    if not lost:
        return None
    first = next(iter(results.values()))
    measure = f"{first.measure} lost"
    rows = [
        [method, results[method].tasks[place], value]
        for method, found in lost.items()
        for place, value in zip(results[method].followed(), found.per_task, strict=False)
    ]
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
    axes.set_ylabel(measure)
    axes.set_title("Lower is better", fontsize=10)
    axes.legend(frameon=False, fontsize=9)
    tidy(axes)
    return Plot("forgetting", svg_of(figure), ("method", "task", measure), rows,
                "Bars: how much of each task every method lost by the end.")  # fmt: skip


def fact_changes(
    changes: Mapping[str, Sequence[Change]],
    facts: Sequence[str],
    *,
    kind: str = "fact",
    measure: str = "average precision",
) -> Plot:
    """The measure of some facts just after they were learned (hollow) and at the end (filled), one row per fact.

    `kind` says what they are if not facts; it names the plot.
    """
    figure = new_figure(6.4, 1.1 + 0.27 * len(facts) * max(1, len(changes) ** 0.5))
    axes = figure.add_subplot()
    rows = []
    step = 0.7 / len(changes)
    for place, (method, listed) in enumerate(changes.items()):
        by_fact = {change.name: change for change in listed}
        style = style_of(place)
        label: str | None = method
        for row, fact in enumerate(facts):
            change = by_fact.get(fact)
            if change is None:
                continue
            y = row + (place - (len(changes) - 1) / 2) * step
            axes.annotate("", (change.now, y), (change.then, y),
                          arrowprops={"arrowstyle": "->", "color": style["color"], "linewidth": 1.4})  # fmt: skip
            axes.plot([change.then], [y], style["marker"], color=style["color"], markersize=5, fillstyle="none")
            axes.plot([change.now], [y], style["marker"], color=style["color"], markersize=6, label=label)
            label = None
        rows += [[method, c.name, c.task, c.then, c.now, c.lost] for c in listed]
    axes.set_yticks(range(len(facts)), facts, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel(f"{measure}: hollow when just learned, filled at the end")
    axes.grid(axis="x", alpha=0.3)
    tidy(axes)
    figure.legend(loc="outside upper center", frameon=False, fontsize=9, ncols=4)
    header = ("method", kind, "task", f"{measure} just after learning", f"{measure} at the end", f"{measure} lost")
    plural = "facts" if kind == "fact" else "classes"
    return Plot(plural, svg_of(figure), header, rows, f"Arrows: each {kind} from when it was just learned to the end.")
