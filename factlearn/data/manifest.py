"""The source `manifest`: a table of images, each with its side (train or test) and the fact it shows.

Columns: `path`, `split`, `subject`, `predicate`, `object`; any others are kept as the samples' metadata. Paths are
relative to the manifest's folder and may have Windows' backslashes. An image that shows several facts has one row per
fact.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import model_validator

from factlearn.config import Located
from factlearn.data.checking import listed, readable
from factlearn.data.registry import FactSourceConfig, source
from factlearn.data.rows import COLUMNS, Row, read_rows
from factlearn.data.samples import SPLITS, FactDataset, Sample
from factlearn.errors import DatasetError, FactError
from factlearn.facts import Fact
from factlearn.progress import say

OnError = Literal["refuse", "skip"]


class ManifestConfig(FactSourceConfig):
    """A manifest."""

    source: Literal["manifest"] = "manifest"
    manifest: Located
    """A CSV, TSV, JSONL or Parquet file with the columns path, split, subject, predicate, object."""
    root: Located | None = None
    """The folder that the manifest's paths are relative to; its own folder if not given."""
    on_error: OnError = "refuse"
    """What to do with a row or an image that cannot be used."""

    def open_remaining(self, seed: int) -> FactDataset:
        """The rows that can be used now."""
        return read_manifest(self.manifest, root=self.root, on_error="skip").limited(self.facts, self.images)

    @model_validator(mode="before")
    @classmethod
    def _manifest_named(cls, raw: Any) -> Any:
        if isinstance(raw, Mapping) and raw.get("manifest") is None:
            raise ValueError("manifest: name the file, here or with --set data.manifest=FILE")
        return raw


@source("manifest", learn="facts", config=ManifestConfig, summary="your own images, listed in a table with their facts")
def open_manifest(config: ManifestConfig, seed: int) -> FactDataset:
    """The facts that a section asks for; images are decoded first only if the damaged ones are to be skipped."""
    dataset = read_manifest(config.manifest, root=config.root, on_error=config.on_error, report=say)
    return (readable(dataset, say) if config.on_error == "skip" else dataset).limited(config.facts, config.images)


def read_manifest(
    path: Path | str,
    *,
    root: Path | str | None = None,
    on_error: OnError = "refuse",
    report: Callable[[str], None] | None = None,
) -> FactDataset:
    """Read a manifest, checking every row before any is used.

    Args:
        path: a file with one of the `MANIFEST_SUFFIXES`.
        root: the folder that paths are relative to; the manifest's own if not given.
        on_error: "refuse" raises one error that lists the problem rows; "skip" skips them.
        report: called with one line of text per skipped row.

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
            report(f"{path.name}, {problem}; skipped")
    if not reader.samples:
        left = f": {_listed(path, problems)}" if problems else "."
        raise DatasetError(f"The manifest {path} has no usable rows{left}")
    return FactDataset(path.stem, tuple(reader.samples))


def _listed(path: Path, problems: list[str]) -> str:
    return f"{path} has {len(problems)} problem row{'s' * (len(problems) > 1)}:{listed(problems)}"


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
            DatasetError, FactError: if something is wrong with the row, without saying which row.
        """
        if row.problem:
            raise DatasetError(row.problem)
        values = row.values
        name = self._portable(values["path"].strip())
        split = values["split"].strip().lower()
        if not name:
            raise DatasetError("the path is empty")
        if split not in SPLITS:
            raise DatasetError(f"the split is {values['split']!r} instead of {' or '.join(SPLITS)}")
        fact = self._fact(values)
        key = (str(PurePosixPath(name)), fact)
        if key in self._places:
            raise DatasetError(f"{name} with {fact} is already listed, on {self._places[key]}")
        if missing := self._missing(name):
            raise DatasetError(missing)
        self._places[key] = row.place
        self._add(key[0], self._root / name, fact, split, values)

    def _add(self, name: str, path: Path, fact: Fact, split: str, values: Mapping[str, str]) -> None:
        """From its second row on, an image's id includes the fact, so that ids stay unique and stable."""
        identity = name if name not in self._ids else f"{name}#{fact}"
        self._ids.add(identity)
        metadata = {key: value for key, value in values.items() if key not in COLUMNS}
        self.samples.append(Sample(identity, path, fact, split, metadata))

    def _fact(self, values: Mapping[str, str]) -> Fact:
        units = (values["subject"], values.get("predicate", ""), values.get("object", ""))
        if units not in self._facts:
            self._facts[units] = Fact(*units)
        return self._facts[units]

    def _portable(self, name: str) -> str:
        """A path written on Windows, unless there is a file whose name has backslashes."""
        if "\\" not in name or os.path.lexists(self._root / name):
            return name
        return name.replace("\\", "/")

    def _missing(self, name: str) -> str:
        """What is wrong with the image file, if anything; looked up once per file."""
        if name not in self._absent:
            path = self._root / name
            try:
                regular = path.is_file()
            except (OSError, ValueError):  # a name too long, or with a NUL
                regular = False
            what = "is not a file" if os.path.lexists(path) else "does not exist"
            self._absent[name] = "" if regular else f"{path} {what}"
        return self._absent[name]
