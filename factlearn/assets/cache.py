"""Where converted assets live: one folder per asset, which appears whole or not at all.

Layout of the cache (`$FACTLEARN_CACHE`, else `$XDG_CACHE_HOME/factlearn`, else `~/.cache/factlearn`):

    assets/NAME/            the converted files, and asset.json, which says where they came from
    assets/.NAME.lock       held while NAME is being fetched, so that two processes do the work once
    assets/.NAME~*/         a download under way; assets/.NAME.*.tmp/ a conversion under way
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from factlearn.errors import AssetError

RECORD = "asset.json"
FORMAT = 1
"""Raised when converted files change their form, so that older ones are made again."""


def cache_dir() -> Path:
    """The folder everything fetched or derived is kept in."""
    chosen = os.environ.get("FACTLEARN_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if home.is_absolute():
        return home / "factlearn"
    try:
        return Path.home() / ".cache" / "factlearn"
    except RuntimeError as error:
        raise AssetError("There is no home folder for the cache; set FACTLEARN_CACHE to a folder.") from error


def asset_folder(name: str) -> Path:
    """The folder of one asset, whether or not it is there yet."""
    return cache_dir() / "assets" / name


def read_record(folder: Path) -> dict[str, Any]:
    """What `asset.json` says of a converted folder; empty where there is none that can be read."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _remove_leftovers(name: str) -> None:
    """Remove what a killed process left half done; the lock says that nobody works on it now."""
    folder = asset_folder(name).parent
    for pattern in (f".{name}.*.tmp", f".{name}~*"):
        for leftover in folder.glob(pattern):
            shutil.rmtree(leftover, ignore_errors=True)


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
        _remove_leftovers(name)
        yield
