"""How importance is spread over the parameters, and how two importances agree (the paper's appendix)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import RunError
from factlearn.experiments.figures import Plot, new_figure, svg_of, tidy
from factlearn.files import atomic_write
from factlearn.learning.runs import Run, load_tensors

TOP = 1000


@dataclass(frozen=True)
class Agreement:
    """How two importances of the same network agree.

    Attributes:
        correlation: of all parameters (Pearson).
        top_correlation: of the parameters that are among the most important of either.
        overlap: the share of the most important parameters that both have in common.
    """

    correlation: float
    top_correlation: float
    overlap: float


def load_omega(run: Run, stage: int | None = None) -> dict[str, NDArray[np.float32]]:
    """The importance a stage left, by default the last, by parameter."""
    stage = run.check_stage(stage)
    state = load_tensors(run.stage_folder(stage) / "strategy.safetensors")
    omega = {n.removeprefix("omega."): t.numpy() for n, t in state.items() if n.startswith("omega.")}
    if not omega:
        raise RunError(f"{run.folder} was learned with {run.config.strategy.name}, which keeps no importance.")
    return omega


def choose_layer(omega: dict[str, NDArray[np.float32]], layer: str | None) -> NDArray[np.float32]:
    """The importance of one parameter tensor, or of all together."""
    if layer is None:
        return np.concatenate([values.ravel() for values in omega.values()])
    if layer not in omega:
        raise RunError(f"There is no parameter {layer!r}; there are {', '.join(omega)}.")
    return omega[layer].ravel()


def agreement(one: NDArray[np.float32], other: NDArray[np.float32]) -> Agreement:
    """Compare two importances of the same parameters."""
    if one.shape != other.shape:
        raise RunError("The two runs are of different networks; compare runs of one config.")
    top = _top_of_both(one, other)
    kept = [set(np.argpartition(values, -min(TOP, len(values)))[-TOP:].tolist()) for values in (one, other)]
    return Agreement(
        correlation=float(np.corrcoef(one, other)[0, 1]),
        top_correlation=float(np.corrcoef(one[top], other[top])[0, 1]),
        overlap=len(kept[0] & kept[1]) / len(kept[0]),
    )


def _top_of_both(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.intp]:
    count = min(TOP, len(one))
    return np.union1d(np.argpartition(one, -count)[-count:], np.argpartition(other, -count)[-count:])


def histogram(omega: NDArray[np.float32], title: str, name: str = "importance") -> Plot:
    """The histogram of all importances and, magnified, of the 1000 most important parameters."""
    figure = new_figure(9, 3.4)
    whole, zoom = figure.subplots(1, 2)
    rows: list[list[Any]] = []
    top = np.sort(omega)[-TOP:]
    for axes, values, bins, colour, log, part in (
        (whole, omega, 80, "#0072b2", True, "all"),
        (zoom, top, 60, "#d55e00", False, "top"),
    ):
        counts, edges, _ = axes.hist(values, bins=bins, color=colour, log=log)
        rows += [[part, low, high, int(n)] for n, low, high in zip(counts, edges[:-1], edges[1:], strict=True)]
        axes.set(xlabel="importance", ylabel="parameters")
        tidy(axes)
    whole.set_title("(a) all parameters", fontsize=10)
    zoom.set_title(f"(b) the {len(top)} most important", fontsize=10)
    figure.suptitle(title, fontsize=11)
    return Plot(name, svg_of(figure), ("part", "from", "to", "parameters"), rows,
                "Histograms: how many parameters have which importance.", figure)  # fmt: skip


def scatter(
    one: NDArray[np.float32], other: NDArray[np.float32], names: tuple[str, str], name: str = "importance-scatter"
) -> Plot:
    """The most important parameters of either run, one importance against the other."""
    figure = new_figure(4.8, 4.8)
    axes = figure.add_subplot()
    top = _top_of_both(one, other)
    axes.scatter(one[top], other[top], s=8, color="#0072b2", alpha=0.5, linewidths=0, rasterized=True)
    reach = float(max(one[top].max(), other[top].max()))
    axes.plot([0, reach], [0, reach], color="#888888", linewidth=1, linestyle="--")
    axes.set(xlabel=names[0], ylabel=names[1])
    axes.set_title(f"most important parameters, correlation {agreement(one, other).top_correlation:.2f}", fontsize=10)
    tidy(axes)
    rows = list(zip(top.tolist(), one[top].tolist(), other[top].tolist(), strict=True))
    return Plot(name, svg_of(figure), ("parameter", *names), rows,
                "Points: the importance of each parameter, measured twice.", figure)  # fmt: skip


def plot_histogram(omega: NDArray[np.float32], path: Path, title: str) -> None:
    """Write `histogram` as PNG, SVG or PDF."""
    _save(histogram(omega, title), path)


def plot_scatter(one: NDArray[np.float32], other: NDArray[np.float32], path: Path, names: tuple[str, str]) -> None:
    """Write `scatter` as PNG, SVG or PDF."""
    _save(scatter(one, other, names), path)


def _save(plot: Plot, path: Path) -> None:
    with atomic_write(path, "wb") as stream:
        plot.figure.savefig(stream, format=path.suffix.lstrip(".") or "png", dpi=130)
