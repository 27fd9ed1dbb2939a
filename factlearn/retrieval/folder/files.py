"""An index as a folder: read as a snapshot, changed by one writer at a time, each change a commit.

    index.json, index.copy.json     the manifest (`manifest.py`)
    segments/, deleted/             the images (`segments.py`)
    structures/                     search structures (`structures.py`)
    language/                       the language space the targets live in, once more when facts are added
    lock                            held by the process that writes

A commit writes new files beside the old ones and then replaces the manifest by a rename. A kill at any instant leaves
the state before or after; what a killed writer left over is swept up by the next one. Readers hold the files of the
state they opened, which stays whole though a writer moves on.
"""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError, FactlearnError
from factlearn.files import atomic_directory
from factlearn.retrieval.folder import segments as seg
from factlearn.retrieval.folder.manifest import (
    COPY,
    MANIFEST,
    FileEntry,
    Manifest,
    SegmentEntry,
    read_manifest,
    write_manifest,
)
from factlearn.retrieval.folder.segments import Segment
from factlearn.retrieval.store import Version

if TYPE_CHECKING:
    import pyarrow as pa

FIRST, LOCK = "000000", "lock"
MOST_ROWS = 1 << 18  # of a segment
MOST_SEGMENTS = 16
_OWN = {"segments", "deleted", "structures", "language"}
State = TypeVar("State")


class SavesItself(Protocol):
    """A language space, as far as storage cares."""

    @property
    def fingerprint(self) -> str: ...

    def save(self, folder: Path) -> None: ...


def check_place(path: Path, *, overwrite: bool) -> None:
    """Refuse a place where something is; an index only unless `overwrite`."""
    if (path / MANIFEST).is_file():
        if not overwrite:
            raise FactIndexError(f"{path} is an index already; choose another place, or allow overwriting it.")
    elif path.exists():
        raise FactIndexError(f"{path} exists already and is not an index; choose another place.")


def start_index(path: Path, manifest: Manifest, language: SavesItself) -> None:
    """Make an index without images in a folder."""
    language.save(path / "language" / FIRST)
    write_manifest(path, manifest.model_copy(update={"files": language_files(path, f"language/{FIRST}")}))


def language_files(index: Path, name: str) -> dict[str, FileEntry]:
    """The entries of a saved language space's files."""
    files = sorted(file for file in (index / name).rglob("*") if file.is_file())
    return {file.relative_to(index).as_posix(): FileEntry.of(file) for file in files}


def open_state(path: Path, opened: Sequence[Segment] = ()) -> tuple[Manifest, list[Segment]]:
    """The manifest and its segments; a state that a writer replaces meanwhile is read again.

    Args:
        path: the index's folder.
        opened: segments open already, which are used again where they are the same.
    """
    known = {segment.entry.name: segment for segment in opened}

    def read(manifest: Manifest) -> tuple[Manifest, list[Segment]]:
        for name, entry in manifest.files.items():
            seg.check_content(path, name, entry)
        return manifest, [_reopened(path, entry, known.get(entry.name)) for entry in manifest.segments]

    return read_state(path, read)


def read_state(path: Path, read: Callable[[Manifest], State]) -> State:
    """What `read` makes of the state; asked again if that fails because a writer replaced the state meanwhile."""
    manifest = read_manifest(path)
    while True:
        try:
            return read(manifest)
        except FactlearnError:
            newer = read_manifest(path)
            if newer == manifest:
                raise
            manifest = newer


def _reopened(path: Path, entry: SegmentEntry, before: Segment | None) -> Segment:
    return before if before is not None and before.entry == entry else Segment(path, entry)


@contextmanager
def locked(path: Path, patience: float = 10.0) -> Iterator[None]:
    """Be the one writer of an index.

    Raises:
        FactIndexError: if another process still writes after `patience` seconds.
    """
    if not path.is_dir():
        raise FactIndexError(f"{path} is not an index (no such folder); build one with `factlearn index build`.")
    until = time.monotonic() + patience
    while True:
        with open(path / LOCK, "a+") as stream:
            _acquire(stream, path, until)
            if not _is_at(stream, path / LOCK):  # the index was replaced as a whole while we waited
                continue
            stream.seek(0)
            stream.truncate()
            stream.write(json.dumps({"pid": os.getpid()}))
            stream.flush()
            yield
            return


def _is_at(stream: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _acquire(stream: IO[str], path: Path, until: float) -> None:
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                stream.seek(0)
                holder = stream.read() or "unknown"
                raise FactIndexError(
                    f"{path} is being written by another process ({holder}); wait for it or try again later."
                ) from None
            time.sleep(0.05)


class Writer:
    """One change of an index, made within `locked`; nothing is visible before `commit`.

    Attributes:
        manifest: the state as it will be.
        segments: the segments of the state as it was.
        generation: the number of the commit to be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest, self.segments = open_state(path)
        self.generation = self.manifest.generation + 1
        self._named = 0

    def update(self, **changes: object) -> None:
        """Change parts of the state to be."""
        self.manifest = self.manifest.model_copy(update=changes)

    def new_name(self) -> str:
        """A name no segment or structure of a state has had."""
        self._named += 1
        return f"{self.generation:06d}-{self._named}"

    def append(self, rows: NDArray[np.float32], items: "pa.Table", model: str) -> None:
        """Add images."""
        for start in range(0, len(rows), MOST_ROWS):
            part = rows[start : start + MOST_ROWS]
            chunk = items.slice(start, len(part)).combine_chunks()
            entry = seg.write_segment(self.path, self.new_name(), [part], chunk, rows.shape[1], model)
            self.update(segments=(*self.manifest.segments, entry))

    def delete(self, chosen: Callable[[Segment], NDArray[np.bool_]]) -> int:
        """Remove the images that `chosen` says of each segment; how many there were."""
        entries, count = [], 0
        for segment in self.segments:
            before = np.zeros(len(segment), bool) if segment.deleted is None else segment.deleted
            now = chosen(segment) & ~before
            count += int(now.sum())
            if not now.any():
                entries.append(segment.entry)
            elif not (all_gone := before | now).all():
                entries.append(seg.write_deleted(self.path, segment.entry, all_gone, self.generation))
        added = self.manifest.segments[len(self.segments) :]
        self.update(segments=(*entries, *added))
        return count

    def learn(self, version: Version, facts: tuple[str, ...], language: SavesItself) -> None:
        """Know a version of the model and facts; the language space is saved again if there are new ones."""
        models = dict(self.manifest.models)
        if version.fingerprint not in models:
            number = 1 + max((entry.number for entry in models.values()), default=-1)
            models[version.fingerprint] = version.entry(number)
        self.update(models=models)
        if facts != self.manifest.facts:
            name = f"language/{self.generation:06d}"
            with atomic_directory(self.path / name) as made:
                language.save(made)
            self.update(facts=facts, files=language_files(self.path, name))

    def join(self, members: Sequence[Segment]) -> SegmentEntry | None:
        """Segments of one model as a new one, without what was removed; None if nothing is left."""
        import pyarrow as pa

        kept = [np.flatnonzero(~segment.deleted) if segment.deleted is not None else None for segment in members]
        tables = [s.items if rows is None else s.items.take(rows) for s, rows in zip(members, kept, strict=True)]
        items = pa.concat_tables(tables, promote_options="default").combine_chunks()
        if not items.num_rows:
            return None
        width = 3 * self.manifest.dimension + 3
        parts = (part for segment, rows in zip(members, kept, strict=True) for part in _parts(segment, rows))
        return seg.write_segment(self.path, self.new_name(), parts, items, width, members[0].entry.model)

    def compact(self, *, whole: bool = False) -> bool:
        """Join small segments, and rewrite those with removed images; True if anything was.

        Args:
            whole: do all that can be joined; otherwise only when there are many small ones or much was removed.
        """
        opened = [Segment(self.path, entry) for entry in self.manifest.segments]
        groups: list[list[Segment]] = []
        for segment in opened:
            fits = groups and groups[-1][0].entry.model == segment.entry.model
            if fits and sum(map(len, groups[-1])) + len(segment) <= MOST_ROWS:
                groups[-1].append(segment)
            else:
                groups.append([segment])
        crowded = whole or len(opened) > MOST_SEGMENTS
        entries: list[SegmentEntry] = []
        changed = False
        for group in groups:
            removed = sum(segment.entry.removed for segment in group)
            if (crowded and (len(group) > 1 or removed)) or removed > sum(map(len, group)) // 2:
                joined = self.join(group)
                entries += [joined] if joined else []
                changed = True
            else:
                entries += [segment.entry for segment in group]
        if changed:
            self.update(segments=tuple(entries))
        return changed

    def commit(self) -> Manifest:
        """Make the state to be the state, and sweep up what no state refers to."""
        names = {segment.name for segment in self.manifest.segments}
        structure = self.manifest.structure
        if structure and not set(structure.segments) <= names:
            self.update(structure=None)
        models = {segment.model for segment in self.manifest.segments}
        latest = max(self.manifest.models, key=lambda name: self.manifest.models[name].number)
        kept = {name: entry for name, entry in self.manifest.models.items() if name in models or name == latest}
        self.update(generation=self.generation, models=kept)
        write_manifest(self.path, self.manifest)
        sweep_up(self.path, self.manifest)
        return self.manifest


def sweep_up(path: Path, manifest: Manifest) -> None:
    """Remove what the manifest does not refer to: old states' files and a killed writer's."""
    named = {"/".join(Path(file).parts[:2]) for file in manifest.all_files()}
    for kind in _OWN:
        for entry in (path / kind).iterdir() if (path / kind).is_dir() else ():
            if f"{kind}/{entry.name}" not in named:
                shutil.rmtree(entry, ignore_errors=True)
    for left in path.glob(".*.tmp"):
        shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)


def damaged_files(path: Path) -> list[FactIndexError]:
    """Every file of an index whose content is not what was written."""
    from concurrent.futures import ThreadPoolExecutor

    def check(item: tuple[str, FileEntry]) -> FactIndexError | None:
        try:
            seg.check_content(path, *item)
        except FactIndexError as error:
            return error
        return None

    found: list[FactIndexError] = []
    for name in (MANIFEST, COPY):
        try:
            read_manifest(path, name)
        except FactIndexError as error:
            found.append(error)
    if found and not (path / MANIFEST).is_file():
        return found
    try:
        manifest = read_manifest(path)
    except FactIndexError:
        return found
    with ThreadPoolExecutor() as pool:
        found += [error for error in pool.map(check, manifest.all_files().items()) if error]
    return found


def _parts(segment: Segment, rows: NDArray[np.int64] | None) -> Iterator[NDArray[np.float32]]:
    chunk = 1 << 14
    if rows is None:
        rows = np.arange(len(segment))
    for start in range(0, len(rows), chunk):
        yield segment.take(rows[start : start + chunk])
