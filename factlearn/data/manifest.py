"""A manifest: a table of images, each with its side (train or test) and the fact it shows.

Columns: `path`, `split`, `subject`, `predicate`, `object`; any others are kept as the samples' metadata.
Paths start from the manifest's folder. An image may stand under several facts, in as many rows.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Literal

from factlearn.data.rows import COLUMNS, Row, read_rows
from factlearn.data.samples import SPLITS, FactDataset, Sample
from factlearn.errors import DatasetError, FactError
from factlearn.facts import Fact

_LISTED = 20
OnError = Literal["refuse", "skip"]


def read_manifest(
    path: Path | str,
    *,
    root: Path | str | None = None,
    on_error: OnError = "refuse",
    report: Callable[[str], None] | None = None,
) -> FactDataset:
    """Read a manifest, checking every row before any is used.

    Args:
        path: a .csv, .tsv, .jsonl or .parquet file.
        root: the folder that relative paths start from; the manifest's own if not given.
        on_error: "refuse" raises one error that lists the problem rows; "skip" leaves them out.
        report: called with a line of text for each row left out.

    Raises:
        DatasetError: if the file cannot be read, or rows have problems (with "skip": if no row is left).
    """
    path = Path(path)
    if on_error not in ("refuse", "skip"):
        raise DatasetError(f"on_error is {on_error!r}; choose refuse or skip.")
    reader = _Reader(path.parent if root is None else Path(root))
    problems: list[str] = []
    for row in read_rows(path):
        try:
            reader.take(row)
        except (DatasetError, FactError) as error:
            problems.append(f"{row.place}: {str(error).rstrip('.')}")
    if problems and on_error == "refuse":
        raise DatasetError(_listed(path, problems))
    if report:
        for problem in problems:
            report(f"{path.name}, {problem}; left out")
    if not reader.samples:
        left = f": {_listed(path, problems)}" if problems else "."
        raise DatasetError(f"The manifest {path} has no usable rows{left}")
    return FactDataset(path.stem, tuple(reader.samples))


def _listed(path: Path, problems: list[str]) -> str:
    lines = [f"{path} has {len(problems)} problem row{'s' * (len(problems) > 1)}:", *problems[:_LISTED]]
    if len(problems) > _LISTED:
        lines.append(f"and {len(problems) - _LISTED:,} more")
    return "\n  ".join(lines)


class _Reader:
    """Turns rows into samples, remembering what it has seen."""

    def __init__(self, root: Path) -> None:
        self.samples: list[Sample] = []
        self._root = root
        self._facts: dict[tuple[str, str, str], Fact] = {}
        self._absent: dict[str, str] = {}
        self._places: dict[tuple[str, Fact], str] = {}
        self._ids: set[str] = set()

    def take(self, row: Row) -> None:
        """Add the row's sample.

        Raises:
            DatasetError, FactError: if something is wrong with the row; the message is for its place in the
                listing.
        """
        if row.problem:
            raise DatasetError(row.problem)
        values = row.values
        name = values["path"].strip()
        split = values["split"].strip().lower()
        if not name:
            raise DatasetError("the path is empty")
        if split not in SPLITS:
            raise DatasetError(f"the split is {values['split']!r} instead of {' or '.join(SPLITS)}")
        fact = self._fact(values)
        key = (str(PurePosixPath(name)), fact)
        if key in self._places:
            raise DatasetError(f"{name} with {fact} is there already, on {self._places[key]}")
        if missing := self._missing(name):
            raise DatasetError(missing)
        self._places[key] = row.place
        self._add(key[0], self._root / name, fact, split, values)

    def _add(self, name: str, path: Path, fact: Fact, split: str, values: Mapping[str, str]) -> None:
        """A path that was used before is told apart by its fact, so that ids stay unique and stable."""
        identity = name if name not in self._ids else f"{name}#{fact}"
        self._ids.add(identity)
        metadata = {key: value for key, value in values.items() if key not in COLUMNS}
        self.samples.append(Sample(identity, path, fact, split, metadata))

    def _fact(self, values: Mapping[str, str]) -> Fact:
        units = (values["subject"], values.get("predicate", ""), values.get("object", ""))
        if units not in self._facts:
            self._facts[units] = Fact(*units)
        return self._facts[units]

    def _missing(self, name: str) -> str:
        """What is wrong with the file itself, if anything; asked once a file."""
        if name not in self._absent:
            path = self._root / name
            try:
                regular = path.is_file()
            except (OSError, ValueError):  # a name too long, or with a NUL
                regular = False
            what = "is not a file" if os.path.lexists(path) else "does not exist"
            self._absent[name] = "" if regular else f"{path} {what}"
        return self._absent[name]
