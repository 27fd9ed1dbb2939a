"""Where converted assets live: one folder an asset, which appears whole or not at all.

Layout of the cache (`$FACTLEARN_CACHE`, else `$XDG_CACHE_HOME/factlearn`, else `~/.cache/factlearn`):

    assets/NAME/            the converted files, and asset.json, which says where they came from
    assets/.NAME.lock       held while NAME is being fetched, so that two processes do the work once
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from factlearn.errors import AssetError

RECORD = "asset.json"


def cache_dir() -> Path:
    """The folder everything fetched or derived is kept in."""
    chosen = os.environ.get("FACTLEARN_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "factlearn"


def asset_folder(name: str) -> Path:
    """The folder of one asset, whether or not it is there yet."""
    return cache_dir() / "assets" / name


@contextmanager
def exclusive(name: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the right to write an asset; a second process waits here until the first is done."""
    lock = asset_folder(name).parent / f".{name}.lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        stream = open(lock, "a")  # noqa: SIM115 - closed below, which also releases the lock
    except OSError as error:
        raise AssetError(
            f"The cache {cache_dir()} cannot be written ({error.strerror}); set FACTLEARN_CACHE to another folder."
        ) from error
    with stream:
        try:
            import fcntl
        except ImportError:  # Windows: renames still keep every file whole, at worst the work is done twice
            yield
            return
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that fetches {name}")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
