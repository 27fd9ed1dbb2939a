"""A segment: images embedded by one model, written once and never changed.

    segments/NAME/rows.npy          float32 [count, 3D+3] (`factlearn.retrieval.rows`)
    segments/NAME/sums.npy          uint64 [count]: one checksum per row
    segments/NAME/items.arrow       one item per image (`factlearn.retrieval.items`); memory-mapped when opened
    segments/NAME/items.copy.arrow  a copy: vectors can be computed again from the images, paths cannot
    deleted/NAME-N/removed.npy      bool [count]: the images that were removed up to commit N, and removed.copy.npy

The file of rows is checked against its SHA-256 before the first sweep over it; a single row that is fetched is checked
against its checksum. So nothing damaged is ever served, although opening an index reads only the small files.

Reading a mapped file beyond its end kills the process (SIGBUS), so the size of a file that somebody may cut while it is
open is looked at before every use of its mapping.
"""

import hashlib
import os
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.files import atomic_directory, sha256_file
from factlearn.retrieval.folder.arrays import load_array
from factlearn.retrieval.folder.manifest import FileEntry, SegmentEntry
from factlearn.retrieval.items import FACTS, METADATA
from factlearn.retrieval.rows import row_sums

if TYPE_CHECKING:
    import pyarrow as pa

ROWS, SUMS, ITEMS, ITEMS_COPY = "rows.npy", "sums.npy", "items.arrow", "items.copy.arrow"
DELETED, DELETED_COPY = "removed.npy", "removed.copy.npy"
BUILT_IN = ("id", "path", "fact")
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, TypeError, MemoryError, OverflowError)
"""What numpy and Arrow raise for files that are not theirs."""


def items_table(columns: Mapping[str, Sequence[str | None]]) -> "pa.Table":
    """The table of `items.arrow` (see `factlearn.retrieval.items`)."""
    import pyarrow as pa

    return pa.table({name: pa.array(column, pa.string()) for name, column in columns.items()})


def write_segment(
    index: Path, name: str, parts: Iterable[NDArray[np.float32]], items: "pa.Table", width: int, model: str
) -> SegmentEntry:
    """Write rows, given in parts, and their items as a new segment; nothing refers to it yet."""
    folder = index / "segments" / name
    with atomic_directory(folder) as made:
        sums = np.empty(items.num_rows, np.uint64)
        largest = np.zeros(3, np.float32)
        at = 0
        with open(made / ROWS, "wb") as stream:  # not mapped: a full disk is then an error, not a signal
            np.lib.format.write_array_header_1_0(
                stream, {"descr": "<f4", "fortran_order": False, "shape": (items.num_rows, width)}
            )
            for part in parts:
                stream.write(np.ascontiguousarray(part, "<f4").data)
                sums[at : at + len(part)] = row_sums(part)
                largest = np.maximum(largest, part[:, -3:].max(axis=0, initial=0))
                at += len(part)
        np.save(made / SUMS, sums, allow_pickle=False)
        for file in (ITEMS, ITEMS_COPY):
            _write_table(made / file, items)
        files = {f"segments/{name}/{file.name}": FileEntry.of(file) for file in sorted(made.iterdir())}
    subject, predicate, object_ = map(float, largest)
    return SegmentEntry(
        name=name, count=items.num_rows, model=model, largest=(subject, predicate, object_), files=files
    )


def write_deleted(index: Path, entry: SegmentEntry, deleted: NDArray[np.bool_], generation: int) -> SegmentEntry:
    """Write which images of a segment are removed; returns its new entry."""
    name = f"{entry.name}-{generation}"
    with atomic_directory(index / "deleted" / name) as made:
        for file in (DELETED, DELETED_COPY):
            np.save(made / file, deleted, allow_pickle=False)
        files = {f"deleted/{name}/{file.name}": FileEntry.of(file) for file in sorted(made.iterdir())}
    kept = {path: file for path, file in entry.files.items() if not path.startswith("deleted/")}
    return entry.model_copy(update={"deleted": name, "removed": int(deleted.sum()), "files": {**kept, **files}})


def _write_table(path: Path, table: "pa.Table") -> None:
    import pyarrow as pa

    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1 << 16)


def read_table(path: Path) -> "pa.Table":
    """A memory-mapped table, checked throughout: Arrow follows the offsets in a file without asking where they lead."""
    import pyarrow as pa

    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    table.validate(full=True)
    missing = [name for name in BUILT_IN if name not in table.column_names]
    if missing or any(column.type != pa.string() for column in table.columns):
        raise ValueError("its columns are not those of items")
    if table.column("id").null_count or table.column("path").null_count:
        raise ValueError("it lists images without an id or a path")
    return table


def check_size(index: Path, path: str, entry: FileEntry) -> None:
    """Refuse a file that is missing or truncated."""
    try:
        size = (index / path).stat().st_size
    except FileNotFoundError:
        raise damaged(index, path, "is missing") from None
    if size != entry.bytes:
        raise damaged(index, path, f"has {size} bytes instead of {entry.bytes}")


def check_content(index: Path, path: str, entry: FileEntry) -> None:
    """Refuse a file that differs from what was written, even in a single bit."""
    check_size(index, path, entry)
    try:
        found = sha256_file(index / path)
    except FileNotFoundError:  # a writer has moved on since
        raise damaged(index, path, "is missing") from None
    if found != entry.sha256:
        raise damaged(index, path, "is damaged (its SHA-256 differs)")


def damaged(index: Path, path: str, what: str) -> FactIndexError:
    """The error for a file that is not as it was written; it names the segment."""
    part = Path(path).parts
    where = f" of segment {part[1]}" if part[0] == "segments" and len(part) > 1 else ""
    return FactIndexError(f"{index / path}{where} {what}; repair the index with `factlearn index refresh`.")


class Segment:
    """An opened segment; small files are checked at once, rows before they are used."""

    def __init__(self, index: Path, entry: SegmentEntry) -> None:
        self.index = index
        self.entry = entry
        self._rows_path = f"segments/{entry.name}/{ROWS}"
        self._whole = False
        self._checking = threading.Lock()
        for path, file in entry.files.items():
            if not path.endswith((ITEMS_COPY, DELETED_COPY)):  # never served: only `verify` reports them
                (check_size if path == self._rows_path else check_content)(index, path, file)
        folder = index / "segments" / entry.name
        try:
            self._file = open(folder / ROWS, "rb", buffering=0)  # noqa: SIM115  (held open: a writer may unlink it)
            self._items_file = open(folder / ITEMS, "rb", buffering=0)  # noqa: SIM115
            self._items = read_table(folder / ITEMS)
            self._sums = load_array(folder / SUMS)
            self._rows: NDArray[np.float32] = load_array(folder / ROWS, mapped=True)
            self.deleted = self._read_deleted()
        except _UNREADABLE as error:
            raise damaged(index, self._rows_path, f"cannot be read ({error})") from error
        counts = {len(self._sums), self._items.num_rows, *self._rows.shape[:1]}
        if counts != {entry.count} or self._rows.ndim != 2 or self._rows.dtype != np.float32:
            raise damaged(index, self._rows_path, f"does not hold the {entry.count} images it should")

    def _read_deleted(self) -> NDArray[np.bool_] | None:
        deleted: NDArray[np.bool_] | None = None
        if self.entry.deleted is not None:
            deleted = load_array(self.index / "deleted" / self.entry.deleted / DELETED)
            if deleted.shape != (self.entry.count,) or deleted.dtype != bool:
                raise ValueError("it does not say for each image whether it was removed")
        if self.entry.removed != (0 if deleted is None else int(deleted.sum())):
            raise ValueError(f"it does not lack the {self.entry.removed} images it should")
        return deleted

    @property
    def width(self) -> int:
        """The length of a row."""
        return int(self._rows.shape[1])

    def __len__(self) -> int:
        return self.entry.count

    @property
    def items(self) -> "pa.Table":
        """The items, memory-mapped."""
        self._check_mapping(self._items_file, f"segments/{self.entry.name}/{ITEMS}")
        return self._items

    def _check_mapping(self, file: IO[bytes], path: str) -> None:
        """Refuse a mapped file that was cut since it was opened."""
        size, expected = os.fstat(file.fileno()).st_size, self.entry.files[path].bytes
        if size != expected:
            raise damaged(self.index, path, f"was truncated to {size} of {expected} bytes while it was open")

    @property
    def rows(self) -> NDArray[np.float32]:
        """All rows, memory-mapped, after checking the whole file."""
        self._check_mapping(self._file, self._rows_path)
        with self._checking:
            if not self._whole:
                self._file.seek(0)
                if hashlib.file_digest(self._file, "sha256").hexdigest() != self.entry.files[self._rows_path].sha256:  # type: ignore[arg-type]
                    raise damaged(self.index, self._rows_path, "is damaged (its SHA-256 differs)")
                self._whole = True
        return self._rows

    def column(self, name: str) -> "pa.ChunkedArray":
        """A column that filters may name; null where this segment has none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if name == "model":
            return pa.chunked_array([pa.array([self.entry.model] * len(self), pa.string())])
        if name == FACTS and FACTS in self.items.column_names:
            return pc.coalesce(self.items.column(FACTS), self.items.column("fact"))
        stored = "fact" if name == FACTS else name if name in BUILT_IN else METADATA + name.removeprefix(METADATA)
        if stored in self.items.column_names:
            return self.items.column(stored)
        return pa.chunked_array([pa.nulls(len(self), pa.string())])

    def has(self, ids: Collection[str]) -> NDArray[np.bool_]:
        """Which images have one of these ids."""
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.is_in(self.items.column("id"), pa.array(list(ids), pa.string())).to_numpy()  # type: ignore[no-any-return]

    def take(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Some rows, each checked; read instead of mapped, so that resident memory does not grow."""
        if self._whole:
            return np.array(self.rows[positions])
        width = self._rows.shape[1]
        taken = np.empty((len(positions), width), np.float32)
        for row, position in zip(taken, positions.tolist(), strict=True):
            read = os.preadv(self._file.fileno(), [row.data], self._rows.offset + position * width * 4)  # type: ignore[attr-defined]
            if read != row.nbytes:
                raise damaged(self.index, self._rows_path, "was truncated while it was open")
        wrong = np.flatnonzero(row_sums(taken) != self._sums[positions])
        if len(wrong):
            image = self.items.column("id")[int(positions[wrong[0]])].as_py()
            raise damaged(self.index, self._rows_path, f"is damaged at image {image!r} (its checksum differs)")
        return taken
