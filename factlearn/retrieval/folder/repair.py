"""Restoring a damaged index folder as far as its files allow.

Tables of items and removals, and the manifest, have a copy that replaces the damaged file. A damaged vector fails its
checksum and is lost, as is one that was cut off; the others in the file are kept. Lost images are removed from the
index, which is then whole again, and returned, so that they can be embedded again. A damaged structure is dropped.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.facts import Fact
from factlearn.files import atomic_directory, atomic_write
from factlearn.language import LanguageSpace
from factlearn.retrieval.folder import segments as seg
from factlearn.retrieval.folder.arrays import load_array
from factlearn.retrieval.folder.files import language_files
from factlearn.retrieval.folder.lock import locked
from factlearn.retrieval.folder.manifest import (
    COPY,
    MANIFEST,
    FileEntry,
    Manifest,
    OtherVersionError,
    SegmentEntry,
    read_manifest,
    write_manifest,
)
from factlearn.retrieval.rows import row_sums, width_of
from factlearn.retrieval.stores import Item

_PAIRS = ((seg.ITEMS, seg.ITEMS_COPY), (seg.DELETED, seg.DELETED_COPY))
_TWINS = {name: other for pair in _PAIRS for name, other in (pair, pair[::-1])}


def restore(path: Path, language: LanguageSpace | None = None) -> list[Item]:
    """Make a damaged index whole again; returns the items of images that were lost.

    Args:
        path: the index's folder.
        language: the index's language space, needed only if the saved one is damaged.

    Raises:
        FactIndexError: if the manifest and its copy are damaged, or the saved language space is and none is given.
    """
    with locked(path):
        manifest = _restored_manifest(path)
        broken = [name for name, entry in manifest.all_files().items() if not _is_good(path, name, entry)]
        for name in broken:
            _copy_back(path, name, manifest.all_files()[name])
        manifest = _with_language(path, manifest, language)
        structure = manifest.structure
        if structure and any(not _is_good(path, *item) for item in structure.files.items()):
            manifest = manifest.model_copy(update={"structure": None})
        lost: list[Item] = []
        entries: list[SegmentEntry] = []
        generation = manifest.generation + 1
        for number, entry in enumerate(manifest.segments):
            if all(_is_good(path, *item) for item in entry.files.items()):
                entries.append(entry)
                continue
            kept, gone = _salvaged(path, entry, f"{generation:06d}-r{number}", width_of(manifest.dimension))
            entries += [kept] if kept else []
            lost += gone
        changed = manifest.model_copy(update={"segments": tuple(entries), "generation": generation})
        covered = changed.structure.segments if changed.structure else ()
        if tuple(entry.name for entry in entries[: len(covered)]) != covered:
            changed = changed.model_copy(update={"structure": None})
        if changed.model_copy(update={"generation": manifest.generation}) != read_manifest(path):
            write_manifest(path, changed)
    return lost


def _restored_manifest(path: Path) -> Manifest:
    found = []
    for name in (MANIFEST, COPY):
        try:
            found.append(read_manifest(path, name))
        except OtherVersionError:
            raise
        except FactIndexError:
            continue
    if not found:
        raise FactIndexError(f"{path} cannot be restored: {MANIFEST} and {COPY} are both damaged; build it again.")
    if len(found) == 1:
        write_manifest(path, found[0])
    return found[0]


def _is_good(path: Path, name: str, entry: FileEntry) -> bool:
    try:
        seg.check_content(path, name, entry)
    except FactIndexError:
        return False
    return True


def _copy_back(path: Path, name: str, entry: FileEntry) -> None:
    """Replace a damaged file by its copy, if it has a good one."""
    file = path / name
    twin = file.parent / _TWINS.get(file.name, "")
    if twin.is_file() and _is_good(path, twin.relative_to(path).as_posix(), entry):
        with atomic_write(file, "wb") as stream, open(twin, "rb") as source:
            shutil.copyfileobj(source, stream)


def _with_language(path: Path, manifest: Manifest, language: LanguageSpace | None) -> Manifest:
    if all(_is_good(path, *item) for item in manifest.files.items()):
        return manifest
    if language is None or language.fingerprint != manifest.language:
        raise FactIndexError(
            f"The language space saved in {path} is damaged; restore it from the run's own with --run."
        )
    name = f"language/{manifest.generation + 1:06d}"
    language.embed([Fact.parse(fact) for fact in manifest.facts])  # so that their units are saved with it
    with atomic_directory(path / name) as made:
        language.save(made)
    return manifest.model_copy(update={"files": language_files(path, name)})


def _salvaged(path: Path, entry: SegmentEntry, name: str, width: int) -> tuple[SegmentEntry | None, list[Item]]:
    """A new segment of the good images in a damaged one, and the items of the others."""
    folder = f"segments/{entry.name}"
    if not _is_good(path, f"{folder}/{seg.ITEMS}", entry.files[f"{folder}/{seg.ITEMS}"]):
        raise FactIndexError(
            f"Both tables of segment {entry.name} of {path} are damaged, so its images are unknown; "
            "build the index again."
        )
    items = seg.read_table(path / folder / seg.ITEMS)
    alive = np.ones(entry.count, bool)
    if entry.deleted is not None:
        removed = f"deleted/{entry.deleted}/{seg.DELETED}"
        if not _is_good(path, removed, entry.files[removed]):
            raise FactIndexError(
                f"Both lists of images removed from segment {entry.name} of {path} are damaged; build the index again."
            )
        alive = ~load_array(path / removed)
    good = np.zeros(entry.count, bool)
    rows = _readable_rows(path / folder / seg.ROWS, entry, width)
    if rows is not None:
        good[: len(rows)] = _matches(path, entry, rows)
    lost = items.take(np.flatnonzero(alive & ~good)).to_pylist()
    kept = np.flatnonzero(alive & good)
    if not len(kept) or rows is None:
        return None, lost
    table = items.take(kept).combine_chunks()
    return seg.write_segment(path, name, _taken(rows, kept), table, width, entry.model), lost


def _taken(rows: NDArray[np.float32], kept: NDArray[np.intp]) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(kept), 1 << 14):
        yield np.asarray(rows[kept[start : start + (1 << 14)]])


def _matches(path: Path, entry: SegmentEntry, rows: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which rows are intact."""
    folder = f"segments/{entry.name}"
    if _is_good(path, f"{folder}/{seg.ROWS}", entry.files[f"{folder}/{seg.ROWS}"]):
        return np.ones(len(rows), bool)
    if not _is_good(path, f"{folder}/{seg.SUMS}", entry.files[f"{folder}/{seg.SUMS}"]):
        return np.zeros(len(rows), bool)
    sums = load_array(path / folder / seg.SUMS)
    return row_sums(rows) == sums[: len(rows)]  # type: ignore[no-any-return]


def _readable_rows(file: Path, entry: SegmentEntry, width: int) -> NDArray[np.float32] | None:
    """As many rows as a truncated file still has. The header is ignored: it may be corrupt."""
    begin = entry.files[f"segments/{entry.name}/{seg.ROWS}"].bytes - 4 * width * entry.count
    try:
        count = min(entry.count, (file.stat().st_size - begin) // (4 * width))
        return np.memmap(file, "<f4", "r", begin, (count, width)) if count > 0 else None
    except OSError:
        return None
