"""How importance is spread over the parameters, and how two importances agree (the paper's appendix)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import RunError
from factlearn.files import atomic_write
from factlearn.runs import Run, load_tensors

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
    finished = run.finished_stages()
    stage = finished if stage is None else stage
    if not 1 <= stage <= finished:
        raise RunError(f"{run.folder} has {finished} finished stages; there is no stage {stage}.")
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


def plot_histogram(omega: NDArray[np.float32], path: Path, title: str) -> None:
    """The histogram of all importances and, magnified, of the 1000 most important parameters."""
    figure = _figure(10, 3.6)
    whole, zoom = figure.subplots(1, 2)
    whole.hist(omega, bins=80, color="#0072b2", log=True)
    whole.set(title="(a) all parameters", xlabel="importance", ylabel="parameters")
    zoom.hist(np.sort(omega)[-TOP:], bins=60, color="#d55e00")
    zoom.set(title=f"(b) the {min(TOP, len(omega))} most important", xlabel="importance", ylabel="parameters")
    figure.suptitle(title)
    _save(figure, path)


def plot_scatter(one: NDArray[np.float32], other: NDArray[np.float32], path: Path, names: tuple[str, str]) -> None:
    """The most important parameters of either run, one importance against the other."""
    figure = _figure(5.2, 5.2)
    axes = figure.add_subplot()
    top = _top_of_both(one, other)
    axes.scatter(one[top], other[top], s=8, color="#0072b2", alpha=0.5, linewidths=0)
    reach = float(max(one[top].max(), other[top].max()))
    axes.plot([0, reach], [0, reach], color="#888888", linewidth=1, linestyle="--")
    axes.set(xlabel=names[0], ylabel=names[1])
    axes.set_title(f"most important parameters, correlation {agreement(one, other).top_correlation:.2f}")
    _save(figure, path)


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, path: Path) -> None:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    with atomic_write(path, "wb") as stream:
        figure.savefig(stream, format=path.suffix.lstrip(".") or "png", dpi=130)
