"""Backing up a run or an index into one file, and getting it back."""

import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from factlearn import __version__
from factlearn.errors import BackupError, FactlearnError
from factlearn.files import atomic_directory, atomic_write
from factlearn.learning.runs import Run
from factlearn.retrieval.folder.manifest import MANIFEST
from factlearn.retrieval.folder.store import FolderStore
from factlearn.retrieval.stores import DEFAULT, STORES, store_at
from factlearn.upkeep.archive import DATA, Writer, extract, read_about
from factlearn.upkeep.snapshots import Part, index_snapshot, run_snapshot

FORMAT = "factlearn backup"
VERSION = 1


@dataclass(frozen=True)
class Backup:
    """What a backup holds.

    Attributes:
        kind: "run" or "index".
        files: the number of files.
        size: their bytes.
    """

    kind: str
    files: int
    size: int


def backup(place: Path | str, file: Path | str, *, overwrite: bool = False) -> Backup:
    """Back up a run or an index to one file, even while it is being written to.

    The photos themselves are not part of it: a run and an index only know where they are.

    Raises:
        BackupError: if there is neither, it is damaged, or the file exists already.
    """
    if store_at(place) is not STORES[DEFAULT]:
        raise BackupError(f"{place} is on a server; back it up with the server's own tools.")
    folder, file = Path(place), Path(file)
    kind, snapshot = _snapshot(folder)
    if file.is_dir():
        raise BackupError(f"{file} is a folder; name the file to write.")
    if file.exists() and not overwrite:
        raise BackupError(f"{file} exists already; replace it with --overwrite, or choose another name.")
    with snapshot as parts:
        size = sum(part.size for part in parts)
        _check_room(file.parent, size)
        about = {"format": FORMAT, "version": VERSION, "kind": kind, "name": folder.resolve().name}
        made = {"factlearn": __version__, "created": datetime.now(UTC).isoformat(timespec="seconds")}
        with atomic_write(file, "wb") as stream:
            writer = Writer(stream, {**about, **made})
            for part in parts:
                found = writer.add(f"{DATA}/{part.name}", part.stream, part.size)
                if part.sha256 not in (None, found):
                    raise BackupError(
                        f"{folder / part.name} is damaged and was not backed up; repair the index with "
                        "`factlearn index refresh`."
                    )
            writer.finish()
    return Backup(kind, len(parts), size)


def restore(file: Path | str, out: Path | str) -> Backup:
    """Restore a backup to a new folder, which appears complete once everything in it has been checked.

    Raises:
        BackupError: if the file is not a whole backup, or the folder exists already.
    """
    file, out = Path(file), Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BackupError(f"{out} exists already; restore to a new folder.")
    try:
        with open(file, "rb") as stream:
            kind = _kind(read_about(stream, file), file)
            _check_room(out.parent, file.stat().st_size)
            with atomic_directory(out) as made:
                extract(stream, file, made)
                _check(kind, made, file)
                sizes = [path.stat().st_size for path in made.rglob("*") if path.is_file()]
    except FileNotFoundError:
        raise BackupError(f"{file} does not exist; name a file that `factlearn backup` wrote.") from None
    except IsADirectoryError:
        raise BackupError(f"{file} is a folder; name a file that `factlearn backup` wrote.") from None
    return Backup(kind, len(sizes), sum(sizes))


def _snapshot(folder: Path) -> tuple[str, AbstractContextManager[list[Part]]]:
    if (folder / MANIFEST).is_file():
        return "index", index_snapshot(folder)
    if (folder / "config.yaml").is_file():
        return "run", run_snapshot(folder)
    raise BackupError(f"{folder} is neither a run nor an index; name one of these folders.")


def _kind(about: dict[str, Any], file: Path) -> str:
    if about.get("format") != FORMAT or about.get("kind") not in ("run", "index"):
        raise BackupError(f"{file} is not a backup that factlearn made.")
    if about.get("version") != VERSION:
        raise BackupError(f"{file} is a backup of version {about.get('version')}; restore it with a newer factlearn.")
    return str(about["kind"])


def _check(kind: str, folder: Path, file: Path) -> None:
    """Refuse what unpacks well but is not what it says: the archive may not come from us."""
    try:
        problems: list[FactlearnError] = [*FolderStore.verify(folder)] if kind == "index" else []
        if kind == "run":
            Run.open(folder).task_names()
    except FactlearnError as error:
        problems = [error]
    if problems:
        raise BackupError(f"{file} holds no whole {kind} ({str(problems[0]).replace(str(folder), 'in it')})")


def _check_room(folder: Path, size: int) -> None:
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.is_dir())
    free = shutil.disk_usage(there).free
    if free < size:
        raise BackupError(f"{there} has {free / 1e6:,.0f} MB free, but {size / 1e6:,.0f} MB are needed.")
