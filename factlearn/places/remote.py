"""Object storage through fsspec: listed, opened and recognised by address.

Only stores that are asked with the user's own credentials, at an endpoint that the user configured: an address in a
manifest or an index can name an object, never a host. fsspec's own settings apply, such as `AWS_PROFILE` and
`FSSPEC_S3_ENDPOINT_URL`.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from factlearn.errors import StorageError

_PACKAGES = {"s3": "factlearn[s3]", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
_MOST_BYTES = 1 << 29
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Object:
    """What a store says of an object: its size, when it was written, and the tag of its content, if it gives one."""

    size: int
    modified: int
    tag: str


_listed: dict[str, Object] = {}  # what the last listing said, so that each object is not asked for again


def is_remote(path: Path | str) -> bool:
    """Whether this is the address of something in object storage."""
    scheme, colon, rest = str(path).partition(":")
    return bool(colon) and scheme in _PACKAGES and rest.startswith("/")


def address(path: Path | str) -> str:
    """The address as people write it, with two slashes."""
    scheme, _, rest = str(path).partition(":")
    return f"{scheme}://{rest.lstrip('/')}"


def objects_below(folder: Path | str) -> list[Path]:
    """Every object whose address begins with a folder's, in the order of their names; hidden ones are left out.

    Raises:
        StorageError: if the store cannot be asked.
    """
    with _asking(folder) as store:
        store.invalidate_cache()
        found = store.find(address(folder).rstrip("/") + "/", detail=True)
    scheme = str(folder).partition(":")[0]
    _listed.clear()
    kept = []
    for name, about in sorted(found.items()):
        path = Path(f"{scheme}:/{name.lstrip('/')}")
        if not any(part.startswith(".") for part in path.relative_to(Path(folder)).parts):
            _listed[str(path)] = _object(about)
            kept.append(path)
    return kept


def about(path: Path | str) -> Object:
    """What the store says of an object, now or when it was last listed.

    Raises:
        FileNotFoundError: if there is none.
        StorageError: if the store cannot be asked.
    """
    if str(path) not in _listed:
        with _asking(path) as store:
            return _object(store.info(address(path)))
    return _listed[str(path)]


def _object(about: dict[str, Any]) -> Object:
    written: Any = about.get("LastModified") or about.get("updated") or about.get("last_modified")
    modified = int(written.timestamp() * 1e9) if hasattr(written, "timestamp") else 0
    tag = str(about.get("ETag") or about.get("etag") or "").strip('"')
    if about.get("type") == "directory":
        raise IsADirectoryError(21, "is a folder", about.get("name"))
    return Object(int(about.get("size") or 0), modified, tag)


def read(path: Path | str, offset: int = 0, size: int | None = None) -> IO[bytes]:
    """An object's bytes, or a part of them.

    Raises:
        StorageError: if there are too many for an image, or the store cannot be asked.
    """
    size = about(path).size if size is None else size
    if size > _MOST_BYTES:
        raise StorageError(f"{address(path)} has {size:,} bytes, more than an image may have ({_MOST_BYTES:,}).")
    if not size:
        return io.BytesIO()
    with _asking(path) as store:
        return io.BytesIO(store.cat_file(address(path), start=offset, end=offset + size))


def open_whole(path: Path) -> IO[bytes]:
    """An object of any size, read as it is needed."""
    with _asking(path) as store:
        opened: IO[bytes] = store.open(address(path), "rb", block_size=_BLOCK)
    return opened


@contextmanager
def _asking(path: Path | str) -> Iterator[Any]:
    """The store of an address; what goes wrong there becomes a sentence."""
    scheme = str(path).partition(":")[0]
    try:
        import fsspec

        yield fsspec.filesystem(scheme)
    except ImportError:
        raise StorageError(f"{address(path)} needs a package; install {_PACKAGES[scheme]}.") from None
    except (FileNotFoundError, IsADirectoryError, StorageError):
        raise
    except Exception as error:  # each store has errors of its own
        reason = (str(error).strip() or type(error).__name__).splitlines()[-1].rstrip(".")
        raise StorageError(
            f"{address(path)} cannot be read ({reason}); check the network, the endpoint and the credentials."
        ) from error
