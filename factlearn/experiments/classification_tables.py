"""Tables and plots of the object recognition experiments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich.table import Table

from factlearn.classification.config import ClassifyConfig
from factlearn.experiments.classification_cells import Cell
from factlearn.files import atomic_write

COLOURS = ("#d55e00", "#000000", "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#cc79a7", "#882255", "#999999", "#44aa99")

_ACCEPTABLE = 0.01


def spread(values: Sequence[float | None], scale: float = 100) -> str:
    """Mean and standard deviation, in percent; a dash where there is nothing."""
    known = [scale * value for value in values if value is not None]
    if not known:
        return "-"
    return f"{mean(known):.1f} ± {stdev(known):.1f}" if len(known) > 1 else f"{known[0]:.1f}"


def default_pairs(config: ClassifyConfig) -> list[str]:
    """The paper's four pairs, or as many of the emoji tasks."""
    if config.data.source == "emoji8":
        return ["animals:travel", "travel:animals", "food:animals", "food:travel"]
    return ["birds:scenes", "scenes:birds", "flowers:birds", "flowers:scenes"]


def default_classes(config: ClassifyConfig) -> tuple[str, ...]:
    """Classes whose memory is tested: the paper's flower, or three emoji of the first task."""
    if config.data.source == "emoji8":
        return ("alien", "red heart", "smiling face with sunglasses")
    if config.data.source == "permuted-digits":
        return tuple(f"order 1/{digit}" for digit in range(10))
    return ("passion flower",)


def methods_table(cells: Mapping[str, Sequence[Cell]]) -> Table:
    """A row a method: mean ± deviation over seeds, in percent."""
    table = Table(title="After the whole sequence")
    for column in ("method", "lambda", "average accuracy", "forgetting", "just learned", "forward", "task-free", "s"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method, runs in cells.items():
        table.add_row(
            method,
            "" if runs[0].strength is None else f"{runs[0].strength:g}",
            spread([run.average for run in runs]),
            spread([run.forgetting for run in runs]),
            spread([run.learned for run in runs]),
            spread([run.forward for run in runs]),
            spread([run.task_free for run in runs]),
            f"{mean(run.seconds for run in runs):.0f}",
        )
    return table


def tasks_table(cells: Mapping[str, Sequence[Cell]]) -> Table:
    """Table 6: each task at the end, with its drop since it was learned."""
    table = Table(title="Each task at the end, percent (change since it was just learned)")
    table.add_column("method")
    for name in next(iter(cells.values()))[0].tasks:
        table.add_column(name, justify="right")
    for method, runs in cells.items():
        entries = []
        for task in range(len(runs[0].tasks)):
            final, drop = _final_and_drop(runs, task)
            entries.append(f"{100 * final:.1f}" + ("" if drop is None else f" ({100 * drop:+.1f})"))
        table.add_row(method, *entries)
    return table


def memory_table(cells: Mapping[str, Sequence[Cell]]) -> Table:
    """Figure 6: megabytes beside the network, while the last task is learned and after it."""
    table = Table(title="Memory beside the network, MB")
    for column in ("method", "network", "learning task 2", "learning the last", "kept after it"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method, runs in cells.items():
        stages = runs[0].memory
        second = stages[min(1, len(stages) - 1)]
        sizes = (
            stages[-1]["model_bytes"],
            second["training_bytes"],
            stages[-1]["training_bytes"],
            stages[-1]["stored_bytes"],
        )
        table.add_row(method, *(f"{size / 1e6:.1f}" for size in sizes))
    return table


def tuning_line(method: str, cells: Mapping[float, Cell]) -> str:
    """The lambda chosen for a method, and the whole curve.

    The paper takes the largest lambda that leaves acceptable accuracy; here that is the largest whose average accuracy
    lies within a point of the best.
    """
    enough = max(cell.average for cell in cells.values()) - _ACCEPTABLE
    best = max(strength for strength, cell in cells.items() if cell.average >= enough)
    curve = "  ".join(
        f"{strength:g}: " + ("diverged" if cell.diverged else f"{100 * cell.average:.1f}")
        for strength, cell in cells.items()
    )
    return f"{method}: lambda {best:g}   ({curve})"


def pairs_table(cells: Mapping[str, Mapping[str, Sequence[Cell]]]) -> Table:
    """Tables 1 and 2: of every pair the first task with its drop, and the second."""
    table = Table(title="Two tasks, accuracy in percent (drop of the first)")
    table.add_column("method")
    pairs = list(next(iter(cells.values())))
    for pair in pairs:
        table.add_column(pair.replace(":", " → "), justify="right")
    table.add_column("mean drop", justify="right")
    for label, row in cells.items():
        entries, drops = [], []
        for pair in pairs:
            final, drop = _final_and_drop(row[pair], 0)
            second, _ = _final_and_drop(row[pair], 1)
            entries.append(f"{100 * final:.1f} ({100 * (drop or 0):+.1f}) {100 * second:.1f}")
            drops += [run.accuracy[-1][0] - run.accuracy[0][0] for run in row[pair]]  # type: ignore[operator]
        table.add_row(label, *entries, spread(drops))
    return table


def one_class_table(plain: Sequence[Cell], adapted: Mapping[str, Sequence[Cell]]) -> Table:
    """Importance from one class: forgetting of the class and of its task, and the accuracy of later tasks."""
    table = Table(title="Importance measured on one class alone, percent, mean ± deviation over seeds")
    columns = (
        "importance from",
        "class kept",
        "class forgets",
        "its task forgets",
        "later tasks, learned",
        "last task",
    )
    for column in columns:
        table.add_column(column, justify="left" if column == "importance from" else "right")

    def row(source: str, name: str, runs: Sequence[Cell]) -> None:
        later = [mean(_number(run.accuracy[i][i]) for i in range(1, len(run.tasks))) for run in runs]
        table.add_row(
            source,
            name,
            spread([run.classes[name][0] - run.classes[name][1] for run in runs]),
            spread([_number(run.accuracy[0][0]) - _number(run.accuracy[-1][0]) for run in runs]),
            spread(later),
            spread([run.accuracy[-1][-1] for run in runs]),
        )

    for name, runs in adapted.items():
        row("every task", name, plain)
        row("this class", name, runs)
    if len(adapted) > 1:
        table.add_section()
        names = list(adapted)
        row("every task", "mean of all", [_mean_class(each, names) for each in plain])
        row("this class", "mean of all", [_mean_class(each, [name]) for name, runs in adapted.items() for each in runs])
    return table


def _mean_class(cell: Cell, names: Sequence[str]) -> Cell:
    """The cell with one more class, the mean of those named."""
    values = [mean(cell.classes[name][place] for name in names) for place in (0, 1)]
    return replace(cell, classes={**cell.classes, "mean of all": values})


def lambda_table(cells: Mapping[float, Sequence[Cell]], method: str) -> Table:
    """Accuracy and forgetting against lambda."""
    table = Table(title=f"{method} against lambda, percent")
    for column in ("lambda", "average accuracy", "forgetting"):
        table.add_column(column, justify="right")
    for strength, runs in cells.items():
        table.add_row(f"{strength:g}", spread([r.average for r in runs]), spread([r.forgetting for r in runs]))
    return table


def plot_lambdas(cells: Mapping[float, Sequence[Cell]], method: str, path: Path) -> Path:
    """Figure 8: average accuracy on the left axis and average forgetting on the right, against lambda."""

    def draw(axes: Any) -> None:
        strengths = list(cells)
        right = axes.twinx()
        for side, colour, marker, values, label in (
            (axes, "#0072b2", "o", [[r.average for r in cells[s]] for s in strengths], "average accuracy, %"),
            (
                right,
                "#d55e00",
                "s",
                [[r.forgetting or 0 for r in cells[s]] for s in strengths],
                "average forgetting, %",
            ),
        ):
            means = [100 * mean(each) for each in values]
            errors = [100 * stdev(each) if len(each) > 1 else 0 for each in values]
            side.errorbar(strengths, means, errors, color=colour, marker=marker, linewidth=2, capsize=3)
            side.set_ylabel(label, color=colour)
            side.tick_params(axis="y", labelcolor=colour)
            side.set_ylim(bottom=0)
            side.spines["top"].set_visible(False)
        axes.set_ylim(0, 100)
        axes.set_xscale("log")
        axes.set_xlabel(f"lambda of {method}")

    return _picture(path, draw, (5.6, 3.6))


def plot_tasks(cells: Mapping[str, Sequence[Cell]], folder: Path) -> Path:
    """Figure 5a: every task at the end of the sequence, a bar a method."""

    def draw(axes: Any) -> None:
        tasks = next(iter(cells.values()))[0].tasks
        width = 0.85 / len(cells)
        for place, (method, runs) in enumerate(cells.items()):
            heights = [100 * _final_and_drop(runs, task)[0] for task in range(len(tasks))]
            starts = [task + (place - len(cells) / 2) * width for task in range(len(tasks))]
            axes.bar(starts, heights, width, label=method, color=COLOURS[place % len(COLOURS)], align="edge")
        axes.set_xticks(range(len(tasks)), tasks)
        axes.set_ylabel("accuracy at the end, %")
        axes.legend(frameon=False, fontsize=8, ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.0))

    return _picture(folder / "tasks.svg", draw, (9, 3.6))


def plot_memory(cells: Mapping[str, Sequence[Cell]], folder: Path) -> Path:
    """Figure 6: network and method together, while each task is learned."""

    def draw(axes: Any) -> None:
        for place, (method, runs) in enumerate(cells.items()):
            if len(runs[0].memory) < 2:
                continue
            sizes = [(stage["model_bytes"] + stage["training_bytes"]) / 1e6 for stage in runs[0].memory]
            axes.plot(range(1, len(sizes) + 1), sizes, label=method, color=COLOURS[place % len(COLOURS)], marker="o")
        axes.set_xlabel("task")
        axes.set_ylabel("memory while learning, MB")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))

    return _picture(folder / "memory.svg", draw, (6.5, 3.4))


def _picture(path: Path, draw: Callable[[Any], None], size: tuple[float, float]) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    draw(axes)
    axes.spines["top"].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    kind = path.suffix.lstrip(".") or "png"
    about: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {"dpi": 140}
    with atomic_write(path, "wb") as stream:
        figure.savefig(stream, format=kind, **about)
    return path


def _final_and_drop(runs: Sequence[Cell], task: int) -> tuple[float, float | None]:
    """A task's mean accuracy at the end, and how that differs from just after it was learned."""
    final = mean(_number(run.accuracy[-1][task]) for run in runs)
    if any(len(run.accuracy) <= task for run in runs):
        return final, None
    return final, final - mean(_number(run.accuracy[task][task]) for run in runs)


def _number(value: float | None) -> float:
    assert value is not None
    return value
