"""Results as tables for people."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from factlearn.data.samples import FactDataset
from factlearn.data.tasks import TaskSplit
from factlearn.facts import FactQuery, Relevance

if TYPE_CHECKING:
    from factlearn.assets import Asset
    from factlearn.experiments.importance_plots import Agreement
    from factlearn.learning.results import RunResult
    from factlearn.learning.runs import RunDirectory
    from factlearn.retrieval import Hit


def number(value: float | None) -> str:
    """A score with three digits; a dash where there is none."""
    return "-" if value is None else f"{value:.3f}"


def matrix_table(result: "RunResult") -> Table:
    """MAP on every task after each stage, and over the whole test set under both relevance rules."""
    table = Table(title=f"MAP after each task: {result.run.folder} ({result.run.config.strategy.name})")
    table.add_column("after learning")
    for task in result.tasks.tasks:
        table.add_column(task.name, justify="right")
    table.add_column("all, prefix", justify="right", style="bold")
    table.add_column("all, exact", justify="right", style="bold")
    previous: list[str] = []
    rows = zip(result.matrix(Relevance.PREFIX), result.learned, result.evaluations, strict=True)
    for row, learned, evaluation in rows:
        new = [name for name in learned if name not in previous]
        previous = learned
        cells = [number(value) for value in row]
        table.add_row(", ".join(new), *cells, number(evaluation.map_all_prefix), number(evaluation.map_all))
    return table


def metrics_table(result: "RunResult") -> Table:
    """The end of the sequence in one table, a column a relevance rule."""
    table = Table(title="At the end of the sequence")
    table.add_column("measure")
    for rule in (Relevance.PREFIX, Relevance.EXACT):
        table.add_column(rule.value, justify="right")
    rules = [result.final.under(rule) for rule in (Relevance.PREFIX, Relevance.EXACT)]
    lost = [result.forgetting(rule) for rule in (Relevance.PREFIX, Relevance.EXACT)]
    table.add_row("MAP, whole test set", *(number(rule.whole.map) for rule in rules))
    for name in rules[0].subsets:
        table.add_row(f"MAP, {name}", *(number(rule.subsets[name].map) for rule in rules))
    table.add_row("average forgetting", *(number(loss.average if loss else None) for loss in lost))
    table.add_row("backward transfer", *(number(loss.backward_transfer if loss else None) for loss in lost))
    found = [rule.image_to_fact for rule in rules]
    for k in ("1", "5", "10"):
        table.add_row(f"image to fact, accuracy@{k}", *(number(f.accuracy_at[k] if f else None) for f in found))
    table.add_row("image to fact, MRR", *(number(f.mrr if f else None) for f in found))
    return table


def tasks_table(split: TaskSplit, dataset: FactDataset) -> Table:
    """The tasks of a split: how large each is and what is typical of it."""
    images = {side: Counter(sample.fact for sample in dataset.of_split(side).samples) for side in ("train", "test")}
    table = Table(title=f"{len(split.tasks)} {split.method} tasks of {dataset.name}")
    for column in ("task", "facts", "train images", "test images"):
        table.add_column(column, justify="left" if column == "task" else "right")
    table.add_column("typical facts")
    for task in split.tasks:
        sizes = [sum(images[side][fact] for fact in task.facts) for side in ("train", "test")]
        typical = ", ".join(str(fact) for fact in (task.typical or task.facts)[:4])
        table.add_row(task.name, str(len(task.facts)), *map(str, sizes), typical)
    return table


def hits_table(query: FactQuery | str, hits: Sequence["Hit"]) -> Table:
    """The images that answer a query, best first."""
    table = Table(title=f"{query}: {len(hits)} images")
    units = list(dict.fromkeys(unit for hit in hits for unit in hit.scores))
    for column in ("rank", "score", *units):
        table.add_column(column, justify="right")
    table.add_column("fact")
    table.add_column("image", overflow="fold")
    for rank, hit in enumerate(hits, 1):
        scores = [f"{hit.score:.3f}", *(number(hit.scores.get(unit)) for unit in units)]
        table.add_row(str(rank), *scores, str(hit.fact or ""), hit.id)
    return table


def assets_json(assets: Iterable["Asset"]) -> list[dict[str, Any]]:
    """The assets as plain JSON values."""
    return [
        {
            "name": asset.name,
            "kind": asset.kind,
            "description": asset.description,
            "licence": asset.licence,
            "bytes": asset.size,
            "sha256": asset.sha256,
            "sources": [str(source) for source in asset.sources],
            "cached": str(asset.path) if asset.cached else None,
        }
        for asset in assets
    ]


def assets_table(assets: Iterable["Asset"]) -> Table:
    """The assets, and which are there already."""
    table = Table(title="Assets")
    for column in ("name", "kind", "download", "cached", "what", "licence"):
        justify: Any = "right" if column == "download" else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column == "name")
    for asset in assets:
        size = f"{asset.size / 1e6:.0f} MB"
        cached = "yes" if asset.cached else "no"
        table.add_row(asset.name, asset.kind, size, cached, asset.description, asset.licence)
    return table


def importance_table(omega: Mapping[str, NDArray[np.float32]]) -> Table:
    """How importance is spread over the parameters."""
    table = Table(title="Importance")
    for column in ("parameter", "values", "mean", "largest", "share held by the top 1 %"):
        table.add_column(column, justify="left" if column == "parameter" else "right")
    for name, values in omega.items():
        flat = np.sort(values.ravel().astype(np.float64))
        top = flat[-max(1, len(flat) // 100) :].sum() / flat.sum() if flat.sum() else 0.0
        table.add_row(name, f"{len(flat):,}", f"{flat.mean():.3g}", f"{flat[-1]:.3g}", f"{top:.0%}")
    return table


def agreement_table(agreement: "Agreement") -> Table:
    """How two importances agree."""
    table = Table(title="Agreement of two importances")
    table.add_column("measure")
    table.add_column("value", justify="right")
    table.add_row("correlation, all parameters", number(agreement.correlation))
    table.add_row("correlation, the most important of either", number(agreement.top_correlation))
    table.add_row("share of the most important in common", number(agreement.overlap))
    return table


def memory_rows(runs: Iterable["RunDirectory"]) -> list[dict[str, Any]]:
    """The measured bytes of each run after each of its stages."""
    return [
        {"run": str(run.folder), "strategy": run.config.strategy.name, "stage": stage, **run.stage(stage)["memory"]}
        for run in runs
        for stage in range(1, run.finished_stages() + 1)
    ]


def memory_table(runs: Iterable["RunDirectory"]) -> Table:
    """Bytes beside the network itself, per stage."""
    table = Table(title="Memory beside the network itself")
    for column in ("run", "strategy", "stage", "network", "while learning", "between tasks"):
        table.add_column(column, justify="left" if column in ("run", "strategy") else "right")
    for row in memory_rows(runs):
        sizes = [f"{row[key] / 1e6:.1f} MB" for key in ("model_bytes", "training_bytes", "stored_bytes")]
        table.add_row(row["run"], row["strategy"], str(row["stage"]), *sizes)
    return table
