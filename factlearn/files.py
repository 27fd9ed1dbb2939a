"""Writing files so that a kill at any moment leaves the old content or the new, never half of one.

Every file this package writes goes through `atomic_write` (one file) or `atomic_directory` (a folder that appears
whole): written beside its place, fsynced, renamed, and the parent folder fsynced.
"""

import ctypes
import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LEFTOVER = re.compile(r"^\..*\.(?P<host>[0-9a-f]{6})-(?P<process>\d+)-[0-9a-f]{8}\.tmp$")
_HOST = hashlib.sha256(platform.node().encode()).hexdigest()[:6]


def _beside(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.parent / f".{path.name}.{_HOST}-{os.getpid()}-{secrets.token_hex(4)}.tmp"


def remove_leftovers(folder: Path) -> None:
    """Delete what writers on this machine that are no longer alive have left half-written in a folder."""
    for entry in list(os.scandir(folder)) if folder.is_dir() else ():
        found = _LEFTOVER.search(entry.name)
        if found is None or found["host"] != _HOST or _is_alive(int(found["process"])):
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            Path(entry.path).unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True


def _sync(path: Path) -> None:
    """Have a file's content, or the names in a folder, on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _named(path: Path, temporary: Path) -> Iterator[None]:
    """Let an error name the place that was to be written; the system names the temporary one, or none if it is full."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _FULL:
            error.filename = str(path)
        elif isinstance(error.filename, str | Path):
            error.filename = str(error.filename).replace(str(temporary), str(path), 1)
        raise


@contextmanager
def atomic_write(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file that takes its place at `path` only when the block ends without an error."""
    path = Path(path)
    temporary = _beside(path)
    try:
        with _named(path, temporary):
            with open(temporary, mode, encoding=None if "b" in mode else "utf-8") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


@contextmanager
def atomic_directory(path: Path | str) -> Iterator[Path]:
    """Give an empty folder that takes its place at `path` only when the block ends without an error.

    A folder already at `path` is exchanged for the new one in one step where the system can, and otherwise moved aside
    for the instant of the change.
    """
    path = Path(path)
    temporary = _beside(path)
    remove_leftovers(path.parent)
    try:
        with _named(path, temporary):
            temporary.mkdir()
            yield temporary
            for file in (temporary, *temporary.rglob("*")):
                if not file.is_symlink():
                    _sync(file)
            if not path.exists():
                os.rename(temporary, path)
            elif not _exchange(temporary, path):
                _replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _sync(path.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step (Linux renameat2); False where that is not to be had."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)


def _replace(new: Path, path: Path) -> None:
    """Put `new` at `path`; what was there is put back if that fails."""
    old = _beside(path)
    os.rename(path, old)
    try:
        os.rename(new, path)
    except OSError:
        os.rename(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def write_json(path: Path | str, value: Any) -> None:
    """Write `value` as indented JSON, atomically; NaN is refused."""
    with atomic_write(path) as stream:
        stream.write(json_text(value))


def json_text(value: Any) -> str:
    """The text `write_json` writes."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def sha256_file(path: Path | str) -> str:
    """The SHA-256 of a file's bytes, in hex."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fingerprint(*parts: Any) -> str:
    """A short stable name (16 hex digits) for plain JSON values and bytes."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part if isinstance(part, bytes) else json.dumps(part, sort_keys=True, default=str).encode()
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()[:16]
