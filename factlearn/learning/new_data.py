"""Opening data that is to be added to a run: a manifest of facts, or a folder of class folders."""

import csv
import hashlib
import io
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from factlearn.data.classes import ClassSequence
from factlearn.data.folder import folder_task
from factlearn.data.manifest import read_manifest
from factlearn.data.rows import MANIFEST_SUFFIXES, delimiter_of, manifest_text
from factlearn.data.samples import FactDataset
from factlearn.errors import DatasetError

_TEST_SHARE = 5


def open_new_facts(path: Path) -> FactDataset:
    """The photos of a manifest; where it has no `split`, a fifth of each fact is set aside for testing.

    Raises:
        DatasetError: if the manifest cannot be used, or has no photos to learn from or to test on.
    """
    if path.suffix.lower() not in MANIFEST_SUFFIXES:
        raise DatasetError(f"{path} is not a manifest of facts; give one of {', '.join(MANIFEST_SUFFIXES)}.")
    dataset = read_manifest(path) if not path.is_file() or _has_split(path) else _read_without_split(path)
    if not len(dataset.of_split("train")):
        raise DatasetError(f"{path} has no training images; mark some rows with split train.")
    return dataset


def open_new_classes(path: Path) -> ClassSequence:
    """The photos of a folder with one folder per class."""
    return ClassSequence(path.name, (folder_task(path, path.name),))


def _has_split(path: Path) -> bool:
    if path.suffix.lower() == ".parquet":
        return True
    return "split" in manifest_text(path).partition("\n")[0].lower()


def _read_without_split(path: Path) -> FactDataset:
    """Read the manifest through a copy that has a split."""
    text = manifest_text(path)
    try:
        rows = _rows(path, text)
    except (ValueError, csv.Error) as error:
        raise DatasetError(f"The manifest {path} cannot be read: {error}.") from error
    first_fact: dict[str, tuple[str, ...]] = {}
    for row in rows:  # a photo of several facts is on one side for all of them
        first_fact.setdefault(str(row.get("path")), _fact(row))
    by_fact: dict[tuple[str, ...], list[str]] = {}
    for name, fact in first_fact.items():
        by_fact.setdefault(fact, []).append(name)
    chosen = {name for names in by_fact.values() for name in _fifth(names)}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / f"{path.stem}.jsonl"
        lines = [{**row, "split": "test" if str(row.get("path")) in chosen else "train"} for row in rows]
        copy.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        try:
            return read_manifest(copy, root=path.parent)
        except DatasetError as error:
            raise DatasetError(str(error).replace(str(copy), str(path))) from error


def _rows(path: Path, text: str) -> list[dict[str, Any]]:
    if path.suffix.lower() in (".csv", ".tsv"):
        delimiter = delimiter_of(text, "\t" if path.suffix.lower() == ".tsv" else ",")
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or ()]
        return [{key: value for key, value in row.items() if key and value is not None} for row in reader]
    return [dict(json.loads(line)) for line in text.split("\n") if line.strip()]


def _fact(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row.get(unit, "")) for unit in ("subject", "predicate", "object"))


def _fifth(names: list[str]) -> list[str]:
    """A fifth of the names, at least one of two, chosen by their hash whatever their order."""
    mixed = sorted(names, key=lambda name: hashlib.sha256(name.encode(errors="surrogateescape")).digest())
    return mixed[: min(max(round(len(mixed) / _TEST_SHARE), 1), len(mixed) - 1)]
