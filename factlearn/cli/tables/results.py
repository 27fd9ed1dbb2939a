"""A run's results as tables for people."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from factlearn.cli.tables.basics import number, percent
from factlearn.cli.tables.protection import protection_table
from factlearn.facts import Relevance

if TYPE_CHECKING:
    from factlearn.data.samples import FactDataset
    from factlearn.data.tasks import TaskSplit
    from factlearn.evaluation.protection import Protection
    from factlearn.evaluation.results import RunResult
    from factlearn.experiments.importance_plots import Agreement
    from factlearn.learning.prediction import Guess
    from factlearn.learning.runs import Run


def result_tables(result: "RunResult", protection: "Protection | None" = None) -> list[Table]:
    """Everything `factlearn evaluate` shows of a run."""
    metrics = (fact_metrics if result.run.config.learn == "facts" else class_metrics)(result)
    protected = [protection_table(protection)] if protection else []
    return [matrix_table(result), *protected, metrics, *calibration_tables(result)]


def calibration_tables(result: "RunResult") -> list[Table]:
    """How far the probabilities of the last stage are off; nothing if they could not be measured."""
    found = result.calibration or {}
    table = Table(title="Expected calibration error of probabilities, on photos not fitted on")
    table.add_column("probabilities of")
    table.add_column("error", justify="right")
    depths = {"10": "the first 10 hits", "20": "the first 20 hits", "all": "all images"}
    for kind, title in (("facts", "whole facts"), ("wildcards", "queries with open units")):
        for depth, error in found.get("ece", {}).get(kind, {}).items():
            table.add_row(f"{title}, {depths[depth]}", number(error))
    for error in found.get("ece", {}).get("answers", {}).values():
        table.add_row("what an image shows, first answer", number(error))
    if "ece" in found.get("measured", {}):
        table.add_row("what an image shows, first answer", number(found["measured"]["ece"]))
    return [table] if table.rows else []


def matrix_table(result: "RunResult") -> Table:
    """The measure of every task after each stage, and over everything."""
    facts = result.run.config.learn == "facts"
    what = "MAP" if facts else "Accuracy in percent"
    title = f"{what} after each task: {result.run.folder} ({result.run.config.strategy.name})"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)  # eight tasks fit into 80 columns
    table.add_column("after learning")
    for name in result.tasks:
        table.add_column(name, justify="right")
    wholes = {"all, prefix": "prefix", "all, exact": "exact"} if facts else {"average": "told"}
    for name in wholes:
        table.add_column(name, justify="right", style="bold")
    shown = number if facts else percent
    previous: list[str] = []
    ends = zip(*(result.whole(rule) for rule in wholes.values()), strict=True)
    for row, learned, whole in zip(result.matrix("prefix" if facts else "told"), result.learned, ends, strict=True):
        new = [name for name in learned if name not in previous]
        previous = learned
        cells = ["" if value is None else shown(value) for value in row]
        table.add_row(", ".join(new), *cells, *map(shown, whole))
    return table


def fact_metrics(result: "RunResult") -> Table:
    """The end of a sequence of facts in one table, one column per relevance rule."""
    table = Table(title="At the end of the sequence")
    table.add_column("measure")
    names = (Relevance.PREFIX.value, Relevance.EXACT.value)
    for name in names:
        table.add_column(name, justify="right")
    rules = [result.final.under(name) for name in names]
    lost = [result.forgetting(name) for name in names]
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


def class_metrics(result: "RunResult") -> Table:
    """The end of a sequence of classes: accuracy, forgetting, transfer, memory and time."""
    lost = result.forgetting()
    memory = result.memory[-1]
    table = Table(title="At the end of the sequence")
    table.add_column("measure")
    table.add_column("value", justify="right")
    for name, value in (
        ("average accuracy, %", percent(result.final.average)),
        ("average accuracy without being told the task, %", percent(result.final.task_free_average)),
        ("average accuracy just after learning, %", percent(result.just_learned())),
        ("average forgetting, points", percent(lost.average if lost else None)),
        ("backward transfer, points", percent(lost.backward_transfer if lost else None)),
        ("forward transfer, points", percent(result.forward_transfer())),
        ("network, MB", f"{memory['model_bytes'] / 1e6:.1f}"),
        ("method, while learning, MB", f"{memory['training_bytes'] / 1e6:.1f}"),
        ("method, between tasks, MB", f"{memory['stored_bytes'] / 1e6:.1f}"),
        ("time, s", f"{sum(result.seconds):.0f}"),
    ):
        table.add_row(name, value)
    return table


def guesses_table(guesses: "Sequence[Guess]") -> Table:
    """What images show, the likeliest first."""
    table = Table(title="Predictions")
    for column in ("image", "task", "fact or class"):
        table.add_column(column, overflow="fold")
    table.add_column(guesses[0].measure if guesses else "", justify="right")
    for guess in guesses:
        table.add_row(guess.image, guess.task, guess.label, number(guess.value))
    return table


def tasks_table(split: "TaskSplit", dataset: "FactDataset") -> Table:
    """The tasks of a split: how large each is and what is typical of it."""
    table = Table(title=f"{len(split.tasks)} {split.method} tasks of {dataset.name}")
    for column in ("task", "facts", "train images", "test images"):
        table.add_column(column, justify="left" if column == "task" else "right")
    table.add_column("typical facts")
    for task in split.tasks:
        sizes = [len(dataset.of_split(side).of_facts(task.facts)) for side in ("train", "test")]
        typical = ", ".join(str(fact) for fact in (task.typical or task.facts)[:4])
        table.add_row(task.name, str(len(task.facts)), *map(str, sizes), typical)
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


def memory_rows(runs: Iterable["Run"]) -> list[dict[str, Any]]:
    """The measured bytes of each run after each of its stages."""
    return [
        {"run": str(run.folder), "strategy": run.config.strategy.name, "stage": stage, **run.stage(stage)["memory"]}
        for run in runs
        for stage in range(1, run.finished_stages() + 1)
    ]


def memory_table(runs: Iterable["Run"]) -> Table:
    """Memory overhead per stage, excluding the network."""
    table = Table(title="Memory overhead of the method, excluding the network")
    for column in ("run", "strategy", "stage", "network", "while learning", "between tasks"):
        table.add_column(column, justify="left" if column in ("run", "strategy") else "right")
    for row in memory_rows(runs):
        sizes = [f"{row[key] / 1e6:.1f} MB" for key in ("model_bytes", "training_bytes", "stored_bytes")]
        table.add_row(row["run"], row["strategy"], str(row["stage"]), *sizes)
    return table
