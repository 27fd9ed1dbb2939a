"""What a run protects, before and after, as a table for people."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.table import Table

from factlearn.cli.tables.basics import number, percent

if TYPE_CHECKING:
    from factlearn.evaluation.protection import Fate, Protection


def protection_table(protection: "Protection") -> Table:
    """Each group of facts or classes in both galleries: then and now, or now alone if nothing was learned since."""
    facts = protection.measure == "MAP"
    what = f"{protection.measure}{'' if facts else ' in percent'}"
    if protection.learned_on:
        title = f"What is protected, and the rest: {what} after {protection.began} → after {protection.ended}"
    else:
        title = f"What is protected, and the rest: {what} after {protection.began}, before learning more"
    table = Table(title=title)
    table.add_column("group")
    table.add_column("facts" if facts else "classes", justify="right")
    for gallery in protection.galleries:
        table.add_column(gallery, justify="right")
    for fate in protection.fates:
        table.add_row(fate.group, str(fate.count), *_cells(fate, protection))
    return table


def _cells(fate: "Fate", protection: "Protection") -> list[str]:
    shown = number if protection.measure == "MAP" else percent
    return [
        f"{shown(before)} → {shown(now)}" if protection.learned_on else shown(now)
        for before, now in zip(fate.before, fate.now, strict=True)
    ]


def outlook_text(outlook: Mapping[str, Any]) -> list[str]:
    """What an adaptation did to the importance, and what speaks against it, in sentences."""
    lines = [
        f"Importance of what is protected and of all learned so far: {outlook['agreement']:.0%} in common.",
        f"Of the importance that held everything, {outlook['kept']:.0%} is kept; the average parameter is held "
        f"{outlook['firmness']:.1f} times as firmly as before.",
    ]
    return lines + [f"WARNING: {warning}" for warning in outlook["warnings"]]
