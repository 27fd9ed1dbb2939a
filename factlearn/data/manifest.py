"""The source `manifest`: a table of images, each with its side (train or test) and the facts it shows.

Columns: `path`, `split`, `subject`, `predicate`, `object`; any others are kept as the samples' metadata. Paths are
relative to the manifest's folder and may have Windows' backslashes. Rows with the same path are one photo that shows
several facts. Without a `split` column, photos are set aside for testing (see `factlearn.data.splitting`).
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import model_validator

from factlearn import places
from factlearn.config import Located
from factlearn.data.checking import listed, readable
from factlearn.data.registry import FactSourceConfig, source
from factlearn.data.rows import COLUMNS, OPTIONAL, Row, read_rows
from factlearn.data.samples import SPLITS, FactDataset, Sample
from factlearn.data.splitting import with_split
from factlearn.errors import DatasetError, FactError
from factlearn.facts import Fact
from factlearn.progress import say

OnError = Literal["refuse", "skip"]


class ManifestConfig(FactSourceConfig):
    """A manifest."""

    source: Literal["manifest"] = "manifest"
    manifest: Located
    """A CSV, TSV, JSONL or Parquet file with the columns path, split (optional), subject, predicate and object."""
    root: Located | None = None
    """The folder that the manifest's paths are relative to; its own folder if null."""
    on_error: OnError = "refuse"
    """What to do about a row or an image that cannot be used: stop (`refuse`) or leave it out (`skip`)."""

    def open_remaining(self, seed: int) -> FactDataset:
        """The rows that can be used now."""
        dataset = read_manifest(self.manifest, root=self.root, on_error="skip", seed=seed)
        return dataset.limited(self.facts, self.images)

    @model_validator(mode="before")
    @classmethod
    def _manifest_named(cls, raw: Any) -> Any:
        if isinstance(raw, Mapping) and raw.get("manifest") is None:
            raise ValueError("manifest: name the file, here or with --set data.manifest=FILE")
        return raw


@source("manifest", learn="facts", config=ManifestConfig, summary="your own images, listed with their facts in a table")
def open_manifest(config: ManifestConfig, seed: int) -> FactDataset:
    """The facts that a section asks for; images are decoded first only if the damaged ones are to be skipped."""
    dataset = read_manifest(config.manifest, root=config.root, on_error=config.on_error, seed=seed, report=say)
    return (readable(dataset, say) if config.on_error == "skip" else dataset).limited(config.facts, config.images)


def read_manifest(
    path: Path | str,
    *,
    root: Path | str | None = None,
    on_error: OnError = "refuse",
    seed: int | None = None,
    report: Callable[[str], None] | None = None,
) -> FactDataset:
    """Read a manifest, checking every row before any is used.

    Args:
        path: a file with one of the `MANIFEST_SUFFIXES`.
        root: the folder that paths are relative to; the manifest's own if not given.
        on_error: "refuse" raises one error that lists the problem rows; "skip" skips them.
        seed: makes a split where the manifest has none; without a seed those images are neither train nor test.
        report: called with one line of text per skipped row, and about a split that was made.

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
    samples = list(reader.samples.values())
    if seed is not None and not reader.has_split:
        samples = with_split(samples, seed)
        if report:
            report(_about_split(path, samples))
    return FactDataset(path.stem, tuple(samples))


def _about_split(path: Path, samples: list[Sample]) -> str:
    test = sum(sample.split == "test" for sample in samples)
    return (
        f"{path.name} has no column split: {len(samples) - test:,} photos are for training and {test:,}, about a fifth "
        "of each fact's, for testing."
    )


def _listed(path: Path, problems: list[str]) -> str:
    return f"{path} has {len(problems)} problem row{'s' * (len(problems) > 1)}:{listed(problems)}"


class _Reader:
    """Turns rows into samples, remembering what it has seen.

    Attributes:
        samples: by the path in the manifest, in the order of their first rows.
        has_split: whether a row names a side.
    """

    def __init__(self, root: Path) -> None:
        self.samples: dict[str, Sample] = {}
        self.has_split = False
        self._root = root
        self._facts: dict[tuple[str, str, str], Fact] = {}
        self._absent: dict[str, str] = {}
        self._places: dict[tuple[str, Fact], str] = {}

    def take(self, row: Row) -> None:
        """Add the row's fact to its image's.

        Raises:
            DatasetError, FactError: if something is wrong with the row, without saying which row.
        """
        if row.problem:
            raise DatasetError(row.problem)
        values = row.values
        name = self._portable(values["path"].strip())
        if not name:
            raise DatasetError("the path is empty")
        split = self._split(values)
        fact = self._fact(values)
        key = (str(PurePosixPath(name)), fact)
        if key in self._places:
            raise DatasetError(f"{name} with {fact} is already listed, on {self._places[key]}")
        known = self.samples.get(key[0])
        if known is not None and split != known.split:
            first = self._places[key[0], known.facts[0]]
            raise DatasetError(
                f"{name} is {split} here and {known.split} on {first}; a photo is for training or for testing, not both"
            )
        if missing := self._missing(name):
            raise DatasetError(missing)
        self._places[key] = row.place
        metadata = {key: value for key, value in values.items() if key not in COLUMNS}
        if known is None:
            self.samples[key[0]] = Sample(key[0], self._at(name), fact, split, metadata)
        else:
            self.samples[key[0]] = known.showing({**known.labels, fact: metadata})

    def _split(self, values: Mapping[str, str]) -> str:
        """The row's side; empty if no row has one."""
        if OPTIONAL not in values:
            if self.has_split:
                raise DatasetError("it has no split, unlike rows before it")
            return ""
        split = values[OPTIONAL].strip().lower()
        if split not in SPLITS:
            raise DatasetError(f"the split is {values[OPTIONAL]!r} instead of {' or '.join(SPLITS)}")
        if self.samples and not self.has_split:
            raise DatasetError("it has a split, unlike rows before it")
        self.has_split = True
        return split

    def _fact(self, values: Mapping[str, str]) -> Fact:
        units = (values["subject"], values.get("predicate", ""), values.get("object", ""))
        if units not in self._facts:
            self._facts[units] = Fact(*units)
        return self._facts[units]

    def _at(self, name: str) -> Path:
        return Path(name) if places.is_remote(name) else self._root / name

    def _portable(self, name: str) -> str:
        """A path written on Windows, unless there is a file whose name has backslashes."""
        if "\\" not in name or os.path.lexists(self._at(name)):
            return name
        return name.replace("\\", "/")

    def _missing(self, name: str) -> str:
        """What is wrong with the image file, if anything; looked up once per file."""
        if name not in self._absent:
            path = self._at(name)
            try:
                regular = places.is_file(path)
            except (OSError, ValueError):  # a name too long, or with a NUL
                regular = False
            what = "is not a file" if os.path.lexists(path) else "does not exist"
            self._absent[name] = "" if regular else f"{path} {what}"
        return self._absent[name]
