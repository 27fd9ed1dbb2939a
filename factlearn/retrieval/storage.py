"""An index as a folder, written whole and checked when it is opened.

    index.json      format, version, dimension, count, model, language, known facts; each file's size and
                    SHA-256; a checksum of all that
    rows.npy        float32 [count, 3D+3] in the searched form (`search.py`), memory-mapped when opened
    items.parquet   one row an image, in the same order: id, path, fact, and a column `metadata.KEY` a key
    language/       the language space the targets live in, which turns query text into vectors

The folder is written beside its place and renamed, so a kill leaves the old index or the new one.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.facts import Fact
from factlearn.files import atomic_directory, sha256_file, write_json

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "factlearn index"
VERSION = 1
MANIFEST, ROWS, ITEMS, LANGUAGE = "index.json", "rows.npy", "items.parquet", "language"
METADATA = "metadata."


class SavesItself(Protocol):
    """A language space, as far as storage cares."""

    @property
    def fingerprint(self) -> str: ...

    def save(self, folder: Path) -> None: ...


@dataclass(frozen=True)
class Header:
    """What an index says of itself.

    Attributes:
        dimension: the length D of a unit's vector.
        count: how many images it holds.
        model: the fingerprint of the model that made the vectors.
        language: the fingerprint of the language space they live in.
        facts: the facts known when it was built; their units are the words of plain-text queries.
    """

    dimension: int
    count: int
    model: str
    language: str
    facts: tuple[Fact, ...]


def items_table(
    ids: Sequence[str],
    paths: Sequence[Path | str],
    facts: Sequence[Fact | None],
    metadata: Sequence[Mapping[str, str]],
) -> "pa.Table":
    """The table of `items.parquet`; a metadata key some images lack is null there.

    Raises:
        FactIndexError: if an id, path or metadata value is not Unicode text.
    """
    import pyarrow as pa

    values: dict[str, list[str | None]] = {
        "id": list(ids),
        "path": [str(Path(path).absolute()) for path in paths],  # found from any working directory
        "fact": [None if fact is None else str(fact) for fact in facts],
    }
    for key in sorted({key for entry in metadata for key in entry}):
        values[METADATA + key] = [entry.get(key) for entry in metadata]
    for name, column in values.items():
        for image, value in zip(ids, column, strict=True):
            if value is not None and not _is_text(value):
                raise FactIndexError(f"The {name} of image {image!r} is {value!r}, not Unicode text; rename it.")
    return pa.table({name: pa.array(column, pa.string()) for name, column in values.items()})


def _is_text(value: Any) -> bool:
    """Whether it is a string without the lone surrogates that stand for undecodable bytes in file names."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def write(
    path: Path,
    header: Header,
    rows: NDArray[np.float32],
    items: "pa.Table",
    language: SavesItself,
    *,
    overwrite: bool,
) -> None:
    """Write an index folder at `path`; an index already there is replaced only if `overwrite`."""
    import pyarrow.parquet as pq

    if (path / MANIFEST).is_file():
        if not overwrite:
            raise FactIndexError(f"{path} is an index already; choose another place, or allow overwriting it.")
    elif path.exists():
        raise FactIndexError(f"{path} exists already and is not an index; choose another place.")
    with atomic_directory(path) as folder:
        np.save(folder / ROWS, rows, allow_pickle=False)
        pq.write_table(items, folder / ITEMS)
        language.save(folder / LANGUAGE)
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        body = {
            "format": FORMAT,
            "version": VERSION,
            "dimension": header.dimension,
            "count": header.count,
            "model": header.model,
            "language": header.language,
            "facts": [str(fact) for fact in header.facts],
            "files": {
                file.relative_to(folder).as_posix(): {
                    "bytes": file.stat().st_size,
                    "sha256": sha256_file(file),
                }
                for file in files
            },
        }
        write_json(folder / MANIFEST, {**body, "checksum": _checksum(body)})


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def read(path: Path, *, verify: bool = True) -> tuple[Header, NDArray[np.float32], "pa.Table"]:
    """Open an index folder; its files' sizes are always checked, their content if `verify`.

    Raises:
        FactIndexError: if there is no index, it is of another version, or a file is damaged (naming the
            file).
    """
    import pyarrow.parquet as pq

    body = _read_manifest(path)
    for name, expected in body["files"].items():
        _check_file(path / name, expected, verify=verify)
    header = Header(
        dimension=body["dimension"],
        count=body["count"],
        model=body["model"],
        language=body["language"],
        facts=tuple(map(Fact.parse, body["facts"])),
    )
    try:
        rows = np.load(path / ROWS, mmap_mode="r", allow_pickle=False)
        items = pq.read_table(path / ITEMS)
    except (OSError, ValueError) as error:
        raise FactIndexError(f"{path} cannot be read ({error}); build the index again.") from error
    if rows.shape != (header.count, 3 * header.dimension + 3) or items.num_rows != header.count:
        raise FactIndexError(f"{path} does not hold the {header.count} images it names; build it again.")
    return header, rows, items


def _read_manifest(path: Path) -> dict[str, Any]:
    manifest = path / MANIFEST
    if not manifest.is_file():
        raise FactIndexError(f"{path} is not an index (it has no {MANIFEST}); build one with `factlearn index build`.")
    try:
        body = json.loads(manifest.read_bytes())
        if body["format"] != FORMAT:
            raise FactIndexError(f"{manifest} is not of a factlearn index; choose another folder.")
        if body["version"] != VERSION:
            raise FactIndexError(
                f"{path} is an index of version {body['version']}, this factlearn reads version {VERSION}; "
                "build the index again or use the factlearn that wrote it."
            )
        checksum = body.pop("checksum")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FactIndexError(f"{manifest} cannot be read; build the index again.") from error
    if checksum != _checksum(body):
        raise FactIndexError(f"{manifest} is damaged (its checksum differs); build the index again.")
    return body  # type: ignore[no-any-return]


def _check_file(file: Path, expected: Mapping[str, Any], *, verify: bool) -> None:
    if not file.is_file():
        raise FactIndexError(f"{file} is missing from the index; build the index again.")
    size = file.stat().st_size
    if size != expected["bytes"]:
        raise FactIndexError(f"{file} has {size} bytes instead of {expected['bytes']}; build the index again.")
    if verify and sha256_file(file) != expected["sha256"]:
        raise FactIndexError(f"{file} is damaged (its SHA-256 differs); build the index again.")
