"""An index as a folder: readers see a snapshot, one writer at a time changes it, each change is a commit.

    index.json, index.copy.json     the manifest (`manifest.py`)
    segments/, deleted/             the images (`segments.py`)
    structures/                     search structures (`structures.py`)
    language/                       the language space; saved again whenever facts are added
    lock                            held by the process that writes (`lock.py`)

A commit writes new files beside the old ones, then replaces the manifest by a rename. A kill at any instant leaves the
state before or after; what a killed writer left behind is deleted by the next one. Readers hold the files of the state
they opened, so it stays whole while writers move on.
"""

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from factlearn.errors import FactIndexError, FactlearnError
from factlearn.language import LanguageSpace
from factlearn.retrieval.folder.manifest import COPY, MANIFEST, FileEntry, Manifest, read_manifest, write_manifest
from factlearn.retrieval.folder.segments import ROWS, Segment, check_content, damaged
from factlearn.retrieval.rows import width_of

FIRST = "000000"
_OWN = ("segments", "deleted", "structures", "language")
State = TypeVar("State")


def check_place(path: Path, *, overwrite: bool) -> None:
    """Refuse a place that is taken, unless by an index and `overwrite` is set."""
    if (path / MANIFEST).is_file():
        if not overwrite:
            raise FactIndexError(f"{path} is already an index; replace it with --overwrite, or choose another place.")
    elif path.exists():
        raise FactIndexError(f"{path} already exists and is not an index; choose another place.")


def start_index(path: Path, manifest: Manifest, language: LanguageSpace) -> None:
    """Make an index without images."""
    language.save(path / "language" / FIRST)
    write_manifest(path, manifest.model_copy(update={"files": language_files(path, f"language/{FIRST}")}))


def language_files(index: Path, name: str) -> dict[str, FileEntry]:
    """The entries of a saved language space's files."""
    files = sorted(file for file in (index / name).rglob("*") if file.is_file())
    return {file.relative_to(index).as_posix(): FileEntry.of(file) for file in files}


def read_state(path: Path, read: Callable[[Manifest], State]) -> State:
    """What `read` makes of the manifest; tried again if it fails because a writer replaced the state meanwhile."""
    for kind in _OWN:
        if (path / kind).is_symlink():  # whose content `sweep_up` would delete
            raise FactIndexError(f"{path / kind} is a link; an index keeps its files in its own folders.")
    manifest = read_manifest(path)
    while True:
        try:
            return read(manifest)
        except FactlearnError:
            newer = read_manifest(path)
            if newer == manifest:
                raise
            manifest = newer


def open_segments(path: Path, manifest: Manifest, opened: Sequence[Segment] = ()) -> list[Segment]:
    """The segments of a state, once the files of its language space are checked.

    Args:
        path: the index's folder.
        opened: segments of another state, reused where they are the same.
    """
    for name, file in manifest.files.items():
        check_content(path, name, file)
    known = {segment.entry.name: segment for segment in opened}
    segments = [
        before if (before := known.get(entry.name)) is not None and before.entry == entry else Segment(path, entry)
        for entry in manifest.segments
    ]
    for segment in segments:
        if segment.width != width_of(manifest.dimension):
            name = f"segments/{segment.entry.name}/{ROWS}"
            raise damaged(path, name, f"does not hold rows of dimension {manifest.dimension}")
    return segments


def saved_language(path: Path, manifest: Manifest) -> LanguageSpace:
    """The language space of a state."""
    return LanguageSpace.load((path / next(iter(manifest.files))).parent)


def sweep_up(path: Path, manifest: Manifest) -> None:
    """Delete what the manifest does not refer to: files of old states and of killed writers."""
    named = {"/".join(Path(file).parts[:2]) for file in manifest.all_files()}
    for kind in _OWN:
        for entry in (path / kind).iterdir() if (path / kind).is_dir() else ():
            if f"{kind}/{entry.name}" not in named:
                shutil.rmtree(entry, ignore_errors=True)
    for left in path.glob(".*.tmp"):
        shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)


def damaged_files(path: Path) -> list[FactIndexError]:
    """One error per file of an index whose content is not what was written."""

    def check(item: tuple[str, FileEntry]) -> FactIndexError | None:
        try:
            check_content(path, *item)
        except FactIndexError as error:
            return error
        return None

    found: list[FactIndexError] = []
    manifests = {}
    for name in (MANIFEST, COPY):
        try:
            manifests[name] = read_manifest(path, name)
        except FactIndexError as error:
            found.append(error)
    if MANIFEST in manifests:
        with ThreadPoolExecutor() as pool:
            found += [error for error in pool.map(check, manifests[MANIFEST].all_files().items()) if error]
    return found
