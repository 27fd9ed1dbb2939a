"""What remembering costs (memory, time), and how strongly to hold on (lambda)."""

from collections.abc import Mapping, Sequence
from typing import Any

from factlearn.evaluation.results import RunResult
from factlearn.experiments.figures import COLOURS, Plot, new_figure, svg_of, tidy
from factlearn.lifelong.registry import title_of

MEGABYTE = 1e6


def memory_bars(results: Mapping[str, RunResult]) -> Plot:
    """Memory overhead while learning the last stage and after it, excluding the network, one group per method."""
    kept = {method: result.memory[-1] for method, result in results.items()}
    network = max(record["model_bytes"] for record in kept.values()) / MEGABYTE
    figure = new_figure(max(4.6, 0.9 * len(kept) + 2), 3)
    axes = figure.add_subplot()
    for place, (key, label) in enumerate((("training_bytes", "while learning"), ("stored_bytes", "between tasks"))):
        values = [record[key] / MEGABYTE for record in kept.values()]
        at = [i + (place - 0.5) * 0.38 for i in range(len(kept))]
        bars = axes.bar(at, values, 0.36, label=label, color=COLOURS[place], hatch=("", "//")[place], edgecolor="white")
        axes.bar_label(bars, fmt="%.0f", fontsize=8)
    axes.axhline(network, color="#888888", linestyle="--", linewidth=1, label="the network itself")
    axes.set_xticks(range(len(kept)), list(kept))
    axes.set_ylabel("MB, excluding the network")
    axes.legend(frameon=False, fontsize=9)
    tidy(axes)
    rows = [
        [method, stage, record["model_bytes"], record["training_bytes"], record["stored_bytes"]]
        for method, result in results.items()
        for stage, record in enumerate(result.memory, 1)
    ]
    header = ("method", "stage", "network bytes", "bytes while learning", "bytes between tasks")
    return Plot("memory", svg_of(figure), header, rows, "Bars: memory that each method needs, excluding the network.")


def timings(results: Mapping[str, RunResult]) -> list[list[Any]]:
    """Method, seconds of each stage, seconds in all."""
    return [[method, result.seconds, sum(result.seconds)] for method, result in results.items()]


def lambda_curve(results: Sequence[RunResult]) -> Plot | None:
    """The end, what was forgotten and how well the last task was learned, against lambda; None without a sweep."""
    by_title: dict[str, dict[float, list[RunResult]]] = {}
    for result in results:
        value = result.run.config.strategy.strength
        if value:
            by_title.setdefault(title_of(result.run.config.strategy), {}).setdefault(value, []).append(result)
    swept = {title: values for title, values in by_title.items() if len(values) > 2}
    if not swept:
        return None
    rows = [
        [title, value, *(sum(column) / len(column) for column in zip(*map(_three, members), strict=True))]
        for title, values in swept.items()
        for value, members in sorted(values.items())
    ]
    measure = results[0].measure
    return draw_lambda(rows, (f"{measure}, all", "average forgetting", f"{measure}, last task"), measure)


def draw_lambda(rows: Sequence[Sequence[Any]], measures: Sequence[str], unit: str) -> Plot:
    """Rows of method, lambda and the measures; one panel per method."""
    titles = list(dict.fromkeys(row[0] for row in rows))
    figure = new_figure(4.6 * len(titles), 3.2)
    for axes, title in zip(figure.subplots(1, len(titles), squeeze=False)[0], titles, strict=True):
        mine = [row for row in rows if row[0] == title]
        for place, measure in enumerate(measures):
            axes.plot([row[1] for row in mine], [row[2 + place] for row in mine], color=COLOURS[place],
                      marker="os^D"[place % 4], label=measure)  # fmt: skip
        axes.set(xscale="log", xlabel="λ", ylabel=unit)
        axes.set_title(title, fontsize=11)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=9)
        tidy(axes)
    return Plot("lambda", svg_of(figure), ("method", "lambda", *measures), rows,
                "Lines: how the result depends on lambda.")  # fmt: skip


def _three(result: RunResult) -> tuple[float, float, float]:
    lost = result.forgetting()
    return result.whole()[-1] or 0.0, lost.average if lost else 0.0, result.matrix()[-1][-1] or 0.0
