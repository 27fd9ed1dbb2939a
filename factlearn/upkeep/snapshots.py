"""The files of a run or an index as they are at one instant, although others may be writing to it.

All files are opened before any is read: a file that a writer replaces or deletes meanwhile keeps its content for those
who have it open. Nobody waits for a backup, and a backup waits for nobody.
"""

import io
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from factlearn.errors import BackupError, FactIndexError
from factlearn.files import json_text
from factlearn.learning.runs import Run
from factlearn.retrieval.folder.files import read_state
from factlearn.retrieval.folder.manifest import COPY, MANIFEST, FileEntry, Manifest, as_json
from factlearn.retrieval.folder.segments import check_size

_TRIES = 200
_PAUSE_SECONDS = 0.01


class Part(NamedTuple):
    """An open file of a snapshot; its checksum is known for files of an index."""

    name: str
    stream: IO[bytes]
    size: int
    sha256: str | None = None


@contextmanager
def index_snapshot(folder: Path) -> Iterator[list[Part]]:
    """The files that an index's manifest names, which never change, and the manifest itself."""
    with ExitStack() as stack:

        def opened(manifest: Manifest) -> list[Part]:
            text = json_text(as_json(manifest)).encode()
            parts = [Part(name, io.BytesIO(text), len(text)) for name in (MANIFEST, COPY)]
            return parts + [_open_entry(stack, folder, *item) for item in manifest.all_files().items()]

        yield read_state(folder, opened)


def _open_entry(stack: ExitStack, folder: Path, name: str, entry: FileEntry) -> Part:
    check_size(folder, name, entry)
    try:
        return Part(name, stack.enter_context(open(folder / name, "rb")), entry.bytes, entry.sha256)
    except FileNotFoundError:  # a writer has moved on since
        raise FactIndexError(f"{folder / name} is missing.") from None


@contextmanager
def run_snapshot(folder: Path) -> Iterator[list[Part]]:
    """All files of a run directory, opened between two listings that agree.

    Raises:
        BackupError: if files come and go too fast, or one is a link to a folder.
    """
    Run.open(folder).description()
    for _ in range(_TRIES):
        with ExitStack() as stack:
            try:
                opened = {name: stack.enter_context(open(folder / name, "rb")) for name in _listed(folder)}
                inodes = {name: os.fstat(stream.fileno()).st_ino for name, stream in opened.items()}
                same = inodes == {name: (folder / name).stat().st_ino for name in _listed(folder)}
            except FileNotFoundError:
                same = False
            if same:
                yield [_part(name, stream) for name, stream in opened.items()]
                return
        time.sleep(_PAUSE_SECONDS)
    raise BackupError(f"{folder} changes too fast to be backed up; stop what writes to it and try again.")


def _listed(folder: Path) -> list[str]:
    """The files below a folder, without those that are being written."""
    found = []
    for where, folders, files in os.walk(folder):
        linked = [path for name in folders if (path := Path(where, name)).is_symlink()]
        if linked:
            raise BackupError(f"{linked[0]} is a link to a folder; put the folder itself in its place.")
        folders[:] = sorted(name for name in folders if not name.endswith(".tmp"))
        found += [Path(where, name).relative_to(folder).as_posix() for name in sorted(files) if name[-4:] != ".tmp"]
    return found


def _part(name: str, stream: IO[bytes]) -> Part:
    """An open file as it is now; of a log that grows, the lines that are whole."""
    if name.endswith(".jsonl"):
        text = stream.read()
        text = text[: text.rfind(b"\n") + 1]
        return Part(name, io.BytesIO(text), len(text))
    return Part(name, stream, os.fstat(stream.fileno()).st_size)
