"""One way to list, open and recognise image files, wherever they lie."""

import errno
import hashlib
import io
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from factlearn.errors import DatasetError, StorageError
from factlearn.places import remote, tars
from factlearn.places.remote import is_remote


@dataclass(frozen=True)
class Status:
    """The size of a file, and when it was written, in nanoseconds; a member of a tar is as old as its tar."""

    size: int
    modified: int


def absolute(path: Path | str) -> Path:
    """A path that holds in any working directory, without `..` and `~`."""
    path = Path(path)
    return path if is_remote(path) else Path(os.path.abspath(path.expanduser()))


def written(path: Path | str) -> str:
    """A path as records and people have it: absolute, an address with both its slashes."""
    return remote.address(path) if is_remote(path) else str(Path(path).absolute())


def open_file(path: Path | str) -> IO[bytes]:
    """Open a file for reading.

    Raises:
        OSError: as `open` does.
        StorageError: if object storage cannot be asked.
        DatasetError: if the tar that it is in is damaged.
    """
    if is_remote(path):
        within = tars.split(Path(path))
        if within is None:
            return remote.read(path)
        member = _member(*within)
        return remote.read(within[0], member.offset, member.size)
    try:
        return open(path, "rb")
    except NotADirectoryError:
        tar, name = _through_tar(path)
        member = _member(tar, name)
        return io.BufferedReader(tars.Window(open(tar, "rb"), member))  # type: ignore[type-var]


def status(path: Path | str) -> Status:
    """What is known of a file without reading it; raises as `open_file` does."""
    if is_remote(path):
        within = tars.split(Path(path))
        known = remote.about(within[0] if within else path)
        return Status(_member(*within).size if within else known.size, known.modified)
    try:
        found = os.stat(path)
        return Status(found.st_size, found.st_mtime_ns)
    except NotADirectoryError:
        tar, name = _through_tar(path)
        return Status(_member(tar, name).size, tar.stat().st_mtime_ns)


def content_key(path: Path | str) -> str:
    """What two files share exactly if they have the same content: their SHA-256.

    Of an object, and of a member of a tar that is one, it is the tag that its store gives, so that nothing is fetched;
    those are only ever equal to each other.
    """
    if not is_remote(path):
        with open_file(path) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    within = tars.split(Path(path))
    tag = remote.about(within[0] if within else path).tag
    if tag:
        return f"etag:{tag}/{within[1]}" if within else f"etag:{tag}"
    return hashlib.sha256(open_file(path).read()).hexdigest()


def is_file(path: Path | str) -> bool:
    """Whether there is a file, or a member of a tar; an object is taken at its word, since asking takes long."""
    if is_remote(path) or os.path.isfile(path):
        return True
    return not os.path.lexists(path) and is_in_tar(path)


def is_in_tar(path: Path | str) -> bool:
    """Whether it is a member of a tar."""
    within = tars.split(Path(path)) if is_remote(path) else _local_tar(path)
    return within is not None and within[1] in _members(within[0])


def is_gone(path: Path | str) -> bool:
    """Whether a file is no longer there; what is in a damaged tar, or a store that is away, may be there tomorrow."""
    try:
        if is_remote(path):
            status(path)
            return False
        return not is_file(path)
    except FileNotFoundError:
        return True
    except (DatasetError, StorageError):
        return False


def is_folder(path: Path | str) -> bool:
    """Whether files can be listed below it: a folder, a tar, or an address."""
    return is_remote(path) or os.path.isdir(path) or (tars.is_tar(path) and os.path.isfile(path))


def holds_files(path: Path | str) -> bool:
    """Whether a user who names this means what is below it, not the file itself; an address may be either."""
    return is_folder(path) and not (is_remote(path) and Path(path).suffix and not tars.is_tar(path))


def files_below(folder: Path, on_error: Callable[[OSError], None]) -> Iterable[Path]:
    """Every file below a folder or in a tar, without the hidden ones.

    Args:
        on_error: called for each folder below that cannot be read.
    """
    if tars.is_tar(folder) and not os.path.isdir(folder):
        for name in _members(folder):
            yield folder / name
    elif is_remote(folder):
        yield from remote.objects_below(folder)
    else:
        for where, folders, names in os.walk(folder, onerror=on_error):
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from (Path(where, name) for name in names if not name.startswith("."))


def _members(tar: Path) -> Mapping[str, tars.Member]:
    if is_remote(tar):
        known = remote.about(tar)
        return tars.members(tar, f"{known.size} {known.modified} {known.tag}", remote.open_whole)
    found = tar.stat()
    return tars.members(tar, f"{found.st_size} {found.st_mtime_ns}", _open_local)


def _open_local(path: Path) -> IO[bytes]:
    return open(path, "rb")


def _member(tar: Path, name: str) -> tars.Member:
    found = _members(tar).get(name)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, "No such member", str(tar / name))
    return found


def _local_tar(path: Path | str) -> tuple[Path, str] | None:
    """The tar that a path goes through on this machine, and the member's name."""
    return tars.split(Path(path), os.path.isfile)


def _through_tar(path: Path | str) -> tuple[Path, str]:
    within = _local_tar(path)
    if within is None:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    return within
