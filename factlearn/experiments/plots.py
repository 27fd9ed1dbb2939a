"""Plots of what was remembered and forgotten, as SVG text that a page can hold."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

from factlearn.facts import Relevance
from factlearn.results import RunResult

# Okabe and Ito's palette: told apart with every kind of colour vision.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def curves_svg(results: Mapping[str, RunResult], tasks: Sequence[str | None]) -> str:
    """MAP after each stage, a line a method, a panel a task; None stands for the whole test set.

    A method that learned all tasks at once is a dashed level line.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(tasks), 3.3), layout="constrained")
    for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        _draw_curves(axes, results, task)
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None})
    svg = stream.getvalue()
    return svg[svg.index("<svg") :]


def _draw_curves(axes: Any, results: Mapping[str, RunResult], task: str | None) -> None:
    steps = max((result.tasks.tasks for result in results.values()), key=len)
    names = [step.name for step in steps]
    first = 0 if task is None else names.index(task)
    for (method, result), colour, marker in zip(results.items(), COLOURS, MARKERS, strict=False):
        values = _values(result, task)
        if len(values) == 1:
            axes.axhline(values[0], color=colour, linestyle="--", label=method)
        else:
            places = range(first + 1, first + 1 + len(values))
            axes.plot(places, values, color=colour, marker=marker, linewidth=2, label=method)
    axes.set_xticks(range(1, len(names) + 1), [f"after\n{name}" for name in names])
    axes.set_xlim(0.7, len(names) + 0.3)
    axes.set_ylim(0, 1)
    axes.set_ylabel("MAP")
    axes.set_title("All test images" if task is None else f"Test images of “{task}”", fontsize=11)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)


def _values(result: RunResult, task: str | None) -> Sequence[float]:
    if task is None:
        values = [evaluation.map_all for evaluation in result.evaluations]
    else:
        column = [step.name for step in result.tasks.tasks].index(task)
        values = [row[column] for row in result.matrix(Relevance.EXACT)]
    return [value for value in values if value is not None]
