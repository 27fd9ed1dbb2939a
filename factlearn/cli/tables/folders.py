"""What folder names were read as, as a table for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from factlearn.data.samples import SPLITS

if TYPE_CHECKING:
    from factlearn.data.folder_facts import NamedFolder


def folders_table(folders: Sequence["NamedFolder"]) -> Table:
    """One row per folder: its fact, how many photos it has, and what is left out and why."""
    sides = [side for side in (*SPLITS, "") if any(folder.count(side) for folder in folders)]
    has_notes = any(folder.problem for folder in folders)
    table = Table(title="What the folders show")
    table.add_column("folder", overflow="fold")
    table.add_column("fact")
    for side in sides:
        table.add_column(side or "photos", justify="right")
    if has_notes:
        table.add_column("note", overflow="fold")
    for folder in folders:
        counts = [str(folder.count(side)) for side in sides]
        notes = [folder.problem] if has_notes else []
        table.add_row(escape(folder.name or "."), str(folder.fact or ""), *counts, *notes)
    return table
