"""One writer at a time: an index folder's `lock` is held by the process that writes."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from factlearn.errors import FactIndexError, IndexBusyError

LOCK = "lock"


@contextmanager
def locked(path: Path, patience: float = 10.0) -> Iterator[None]:
    """Be the only writer of an index.

    Raises:
        IndexBusyError: if another process is still writing after `patience` seconds.
        FactIndexError: if there is no index.
    """
    if not path.is_dir():
        raise FactIndexError(f"{path} is not an index (no such folder); build one with `factlearn index build`.")
    until = time.monotonic() + patience
    while True:
        with open(path / LOCK, "a+") as stream:
            _acquire(stream, path, until)
            if not _is_at(stream, path / LOCK):  # the whole index was replaced while we waited
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
                raise IndexBusyError(
                    f"{path} is being written by another process ({holder}); wait for it or try again later."
                ) from None
            time.sleep(0.05)
