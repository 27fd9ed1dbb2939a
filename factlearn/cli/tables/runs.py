"""Tables of run directories."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from factlearn.learning.pruning import RunSize


def megabytes(count: int) -> str:
    """A number of bytes for people."""
    return f"{count / 1e6:,.1f} MB"


def runs_table(runs: "Sequence[RunSize]") -> Table:
    """Runs with their sizes."""
    table = Table(title="Runs")
    for heading in ("run", "learns", "method", "tasks"):
        table.add_column(heading)
    for heading in ("size", "`runs prune` frees"):
        table.add_column(heading, justify="right")
    for each in runs:
        about = each.to_json()
        tasks = f"{about['learned']} of {about['tasks']}"
        sizes = (megabytes(about["bytes"]), megabytes(about["prunable_bytes"]))
        table.add_row(about["run"], about["learn"], about["strategy"], tasks, *sizes)
    table.add_section()
    total = (sum(each.size for each in runs), sum(each.prunable for each in runs))
    table.add_row("all", "", "", "", *map(megabytes, total))
    return table
