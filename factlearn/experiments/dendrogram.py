"""The tree of facts that tasks found by meaning were cut from."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from factlearn.data.tasks import TaskSplit, linkage_matrix
from factlearn.errors import DatasetError
from factlearn.facts import Fact
from factlearn.files import atomic_write


def plot_dendrogram(split: TaskSplit, embeddings: Mapping[Fact, NDArray[np.float32]], path: Path) -> None:
    """Draw the tree of facts with the tasks in colour, one readable line per fact, as PNG, SVG or PDF."""
    from matplotlib.figure import Figure
    from scipy.cluster.hierarchy import dendrogram, set_link_color_palette

    facts = sorted(embeddings)
    if len(facts) < 2:
        raise DatasetError("A dendrogram needs at least two facts.")
    method = split.details.get("linkage", "ward")
    tree = linkage_matrix(np.stack([embeddings[fact] for fact in facts]).astype(np.float64), method)
    count = len(split.tasks)
    cut = (tree[-count + 1, 2] + tree[-count, 2]) / 2 if 1 < count < len(facts) else 0
    figure = Figure(figsize=(9, 0.16 * len(facts) + 1.2), layout="constrained")
    axes = figure.add_subplot()
    set_link_color_palette(["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"])
    try:
        dendrogram(
            tree, labels=[str(f) for f in facts], orientation="left", ax=axes, leaf_font_size=7,
            color_threshold=cut, above_threshold_color="#888888",
        )  # fmt: skip
    finally:
        set_link_color_palette(None)
    axes.set_xlabel(f"distance between fact embeddings ({method} linkage)")
    axes.spines[["top", "right", "left"]].set_visible(False)
    with atomic_write(path, "wb") as stream:
        figure.savefig(stream, format=path.suffix.lstrip(".") or "png", dpi=130)
