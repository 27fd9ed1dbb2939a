"""What an experiment found, beside what the paper reports: tables, statements, plots; kept as JSON, shown as tables."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from factlearn.errors import RunError
from factlearn.experiments.figures import Plot
from factlearn.files import write_json


@dataclass(frozen=True)
class Entry:
    """One number of the paper and ours, either of which may be missing; `deviation` is ours over seeds."""

    row: str
    column: str
    paper: float | None
    here: float | None
    deviation: float | None = None


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper with our numbers in it.

    Attributes:
        title: what it is.
        entries: its numbers.
        digits: after the point.
        note: what to know when reading it.
    """

    title: str
    entries: list[Entry]
    digits: int = 3
    note: str = ""

    @property
    def rows(self) -> list[str]:
        """The rows' names, in order."""
        return list(dict.fromkeys(entry.row for entry in self.entries))

    @property
    def columns(self) -> list[str]:
        """The columns' names, in order."""
        return list(dict.fromkeys(entry.column for entry in self.entries))

    def cell(self, row: str, column: str) -> str:
        """`paper | here ± deviation`, a dash where a number is missing; ours alone where the paper gives none."""
        found = [entry for entry in self.entries if (entry.row, entry.column) == (row, column)]
        if not found:
            return ""
        here = _text(found[0].here, self.digits)
        if found[0].deviation is not None:
            here += f" ± {found[0].deviation:.{self.digits}f}"
        if all(entry.paper is None for entry in self.entries):
            return here
        return f"{_text(found[0].paper, self.digits)} | {here}"

    def swapped(self, column: str) -> list[tuple[str, str]]:
        """Pairs of rows (a, b) that the paper orders a > b and we order a < b."""
        both = [e for e in self.entries if e.column == column and e.paper is not None and e.here is not None]
        return [
            (one.row, other.row)
            for one in both
            for other in both
            if (one.paper or 0) > (other.paper or 0) and (one.here or 0) < (other.here or 0)
        ]

    def ordering(self, column: str) -> str:
        """Whether our rows come in the paper's order."""
        both = [e for e in self.entries if e.column == column and e.paper is not None and e.here is not None]
        if len({found.paper for found in both}) < 2:
            return "-"
        swapped = self.swapped(column)
        if len(swapped) > 2:
            pairs = sum((one.paper or 0) > (other.paper or 0) for one in both for other in both)
            return f"no: {len(swapped)} of {pairs} pairs swapped"
        return "yes" if not swapped else "no: " + ", ".join(f"{b} > {a}" for a, b in swapped)


@dataclass(frozen=True)
class Statement:
    """Something the paper says or we ask for, and whether it holds here."""

    text: str
    holds: bool | None
    detail: str


@dataclass
class Outcome:
    """What one experiment found.

    Attributes:
        name, paper, title: of the experiment.
        setting: scale, data, seeds, methods, in words.
        command: what repeats it.
        seconds: what learning all its runs took, measured, whenever they were learned.
        runs: how many there are.
    """

    name: str
    paper: str
    title: str
    setting: str
    command: str = ""
    tables: list[PaperTable] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    runs: int = 0
    plots: list[Plot] = field(default_factory=list)

    def say(self, text: str, holds: bool | None, detail: str) -> None:
        """Add a statement."""
        self.statements.append(Statement(text, holds, detail))

    def save(self, folder: Path) -> None:
        """Write outcome.json, and each plot as SVG and CSV."""
        for plot in self.plots:
            plot.save(folder)
        values = {**asdict(replace(self, plots=[])), "plots": [plot.name for plot in self.plots]}
        write_json(folder / "outcome.json", values)

    @classmethod
    def load(cls, folder: Path) -> "Outcome":
        """Read what `save` wrote; the plots stay files."""
        path = folder / "outcome.json"
        try:
            raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            tables = [PaperTable(**{**t, "entries": [Entry(**e) for e in t["entries"]]}) for t in raw.pop("tables")]
            statements = [Statement(**statement) for statement in raw.pop("statements")]
            raw.pop("plots")
            return cls(**raw, tables=tables, statements=statements)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} is not readable ({error}); run `factlearn reproduce` again.") from None


def entry(row: str, column: str, paper: float | None, values: Sequence[float | None]) -> Entry:
    """An entry from our values over seeds."""
    given = [value for value in values if value is not None]
    return Entry(row, column, paper, mean(given) if given else None, stdev(given) if len(given) > 1 else None)


def above(one: float, other: float, least: float = 0.001) -> bool | None:
    """Whether one is above the other; None if they differ by less than it takes to say so."""
    return None if abs(one - other) < least else one > other


def verdict(holds: bool | None) -> str:
    """Yes, no, or not to be said."""
    return "-" if holds is None else "yes" if holds else "no"


def _text(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
