"""A classifier's results as tables for people."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from factlearn.classification.prediction import Guess
from factlearn.classification.results import ClassResult


def percent(value: float | None) -> str:
    """A share in percent; a dash where there is none."""
    return "-" if value is None else f"{100 * value:.1f}"


def accuracy_table(result: ClassResult) -> Table:
    """Accuracy on every task after each stage, and the average of those learned."""
    strategy = result.run.config.strategy.name
    title = f"Accuracy in percent after each task: {result.run.folder} ({strategy})"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)  # eight tasks fit into 80 columns
    table.add_column("after")
    for name in result.tasks:
        table.add_column(name, justify="right")
    table.add_column("average", justify="right", style="bold")
    before = 0
    for row in result.accuracy:
        values = [value for value in row if value is not None]
        table.add_row(
            ", ".join(result.tasks[before : len(values)]),
            *("" if value is None else percent(value) for value in row),
            percent(sum(values) / len(values)),
        )
        before = len(values)
    return table


def summary_table(result: ClassResult) -> Table:
    """The end of the sequence: accuracy, forgetting, transfer, memory and time."""
    lost = result.forgetting
    last = len(result.predictions)
    memory = result.run.stage(last)["memory"]
    seconds = sum(result.run.stage(number)["seconds"] for number in range(1, last + 1))
    table = Table(title="At the end of the sequence")
    table.add_column("measure")
    table.add_column("value", justify="right")
    for name, value in (
        ("average accuracy, %", percent(result.average)),
        ("average accuracy without being told the task, %", percent(result.task_free_average)),
        ("average accuracy just after learning, %", percent(result.learned)),
        ("average forgetting, points", percent(lost.average if lost else None)),
        ("backward transfer, points", percent(lost.backward_transfer if lost else None)),
        ("forward transfer, points", percent(result.forward_transfer)),
        ("network, MB", f"{memory['model_bytes'] / 1e6:.1f}"),
        ("memory while learning, MB", f"{memory['training_bytes'] / 1e6:.1f}"),
        ("memory between tasks, MB", f"{memory['stored_bytes'] / 1e6:.1f}"),
        ("time, s", f"{seconds:.0f}"),
    ):
        table.add_row(name, value)
    return table


def guesses_table(guesses: Sequence[Guess]) -> Table:
    """What images show, the likeliest first."""
    table = Table(title="Predictions")
    for column in ("image", "task", "class"):
        table.add_column(column, overflow="fold")
    table.add_column("probability", justify="right")
    for guess in guesses:
        table.add_row(guess.image, guess.task, guess.label, f"{guess.probability:.3f}")
    return table
