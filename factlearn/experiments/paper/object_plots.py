"""Figure 5: accuracy and drop of each of eight tasks; Figure 6: memory at each step."""

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

from factlearn.evaluation.results import RunResult
from factlearn.experiments.figures import COLOURS, Plot, new_figure, style_of, svg_of, tidy
from factlearn.lifelong.registry import METHODS

PERCENT, MEGABYTE = 100.0, 1e6
_HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo")


def accuracy_bars(learned: Mapping[str, Sequence[RunResult]]) -> Plot:
    """Figure 5a: each task at the end, one bar per method."""
    return _bars(learned, lambda result, task: result.matrix()[-1][task], "accuracy at the end, %", "accuracy")


def drop_bars(learned: Mapping[str, Sequence[RunResult]]) -> Plot:
    """Figure 5b: what each task lost since it was just learned."""

    def drop(result: RunResult, task: int) -> float | None:
        rows = result.matrix()
        then, now = rows[task][task], rows[-1][task]
        return None if then is None or now is None else then - now

    return _bars(learned, drop, "points lost since just learned", "drop")


def _bars(
    learned: Mapping[str, Sequence[RunResult]], value: Callable[[RunResult, int], float | None], label: str, name: str
) -> Plot:
    tasks = next(iter(learned.values()))[0].tasks
    figure = new_figure(1.15 * len(tasks) + 1.5, 3.4)
    axes = figure.add_subplot()
    width = 0.84 / len(learned)
    rows: list[list[Any]] = []
    for place, (method, group) in enumerate(learned.items()):
        means = [PERCENT * mean(value(result, task) or 0.0 for result in group) for task in range(len(tasks))]
        at = [task + (place - (len(learned) - 1) / 2) * width for task in range(len(tasks))]
        axes.bar(at, means, width * 0.95, label=METHODS[method].title, color=COLOURS[place % len(COLOURS)],
                 hatch=_HATCHES[place % len(_HATCHES)], edgecolor="white", linewidth=0.3)  # fmt: skip
        rows += [[METHODS[method].title, task, number] for task, number in zip(tasks, means, strict=True)]
    axes.set_xticks(range(len(tasks)), tasks, rotation=15)
    axes.set_ylabel(label)
    tidy(axes)
    figure.legend(loc="outside upper center", ncols=6, frameon=False, fontsize=9)
    return Plot(name, svg_of(figure), ("method", "task", label), rows, f"Bars: {label}, for each task and method.")


def memory_lines(learned: Mapping[str, Sequence[RunResult]]) -> Plot:
    """Figure 6 and the appendix: memory overhead at each step, while training and between tasks."""
    figure = new_figure(9, 3.3)
    rows: list[list[Any]] = []
    panels = (("training_bytes", "while training"), ("stored_bytes", "between tasks"))
    for axes, (key, title) in zip(figure.subplots(1, 2), panels, strict=True):
        for place, (method, group) in enumerate(learned.items()):
            sizes = [step[key] / MEGABYTE for step in group[0].memory]
            style = style_of(place)
            axes.plot(range(1, len(sizes) + 1), sizes, **style, label=METHODS[method].title)
            rows += [[METHODS[method].title, title, step, size] for step, size in enumerate(sizes, 1)]
        axes.set(xlabel="tasks learned", ylabel="MB, excluding the network")
        axes.set_title(title, fontsize=10)
        tidy(axes)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=9)
    return Plot("memory", svg_of(figure), ("method", "moment", "task", "MB"), rows,
                "Lines: memory overhead after each task, for each method.")  # fmt: skip
