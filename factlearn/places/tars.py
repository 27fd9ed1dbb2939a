"""Tar files read as folders: the members of each are listed once, and read where they are.

Nothing is written to the disk, so that no name inside can leave its place; links and devices are left out, and a header
that claims more than a name could need is refused before it is read. A tar is taken whole or not at all.
"""

import io
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Self

from factlearn.errors import DatasetError

SUFFIX = ".tar"
_MOST_IN_A_HEADER = 1 << 20
_EXTENSIONS = (
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Member:
    """Where the bytes of a member are."""

    offset: int
    size: int


def is_tar(path: Path | str) -> bool:
    """Whether a file is a tar, by its name."""
    return str(path).lower().endswith(SUFFIX)


def split(path: Path, is_one: Callable[[Path], bool] = lambda _: True) -> tuple[Path, str] | None:
    """The first tar that a path goes through, and the member's name; None if it goes through none."""
    for number, part in enumerate(path.parts[:-1], 1):
        if is_tar(part) and is_one(tar := Path(*path.parts[:number])):
            return tar, "/".join(path.parts[number:])
    return None


@lru_cache(maxsize=64)
def members(tar: Path, version: str, opened: Callable[[Path], IO[bytes]]) -> Mapping[str, Member]:
    """The regular files in a tar, by name; hidden ones and those whose name leads elsewhere are left out.

    Args:
        version: changes when the tar does.
        opened: opens the tar.

    Raises:
        DatasetError: if it is compressed, damaged, or cut short.
    """
    with opened(tar) as stream:
        return _listed(tar, stream)


def _listed(tar: Path, stream: IO[bytes]) -> dict[str, Member]:
    end = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    found: dict[str, Member] = {}
    try:
        with tarfile.open(fileobj=stream, mode="r:", tarinfo=_Header, errors="surrogateescape") as archive:
            while (header := archive.next()) is not None:
                if header.offset_data + header.size > end:
                    raise DatasetError(f"The tar {tar} is cut short in {header.name!r}; write it again.")
                archive.members.clear()  # type: ignore[attr-defined]  # it would keep a header per member
                name = header.name.removeprefix("./")
                if header.isreg() and header.sparse is None and _is_plain(name):
                    found[name] = Member(header.offset_data, header.size)
            _check_end(tar, stream, archive.offset, end)  # type: ignore[attr-defined]
    except (tarfile.TarError, ValueError, UnicodeError, OverflowError, RecursionError) as error:
        raise DatasetError(
            f"{tar} is not a whole tar ({str(error) or type(error).__name__}); compressed tars cannot be read in place."
        ) from error
    return found


def _check_end(tar: Path, stream: IO[bytes], offset: int, end: int) -> None:
    """A tar ends with a block of zeros, or with the file; what stops before that is damaged."""
    stream.seek(offset)
    if offset < end and stream.read(tarfile.BLOCKSIZE).strip(b"\0"):
        raise DatasetError(f"The tar {tar} is damaged at byte {offset:,}; write it again.")


class _Header(tarfile.TarInfo):
    """A header whose extensions must be of a size that names have."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str | None, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)  # type: ignore[arg-type]
        if header.type in _EXTENSIONS and not 0 <= header.size <= _MOST_IN_A_HEADER:
            raise DatasetError(f"A tar has a header of {header.size:,} bytes, more than any name needs; it is refused.")
        if header.size < 0:
            raise DatasetError("A tar has a member of negative size; it is refused.")
        return header


def _is_plain(name: str) -> bool:
    """Whether a name stays in its tar and is written as a path is, so that a path leads back to it."""
    if "\0" in name or str(PurePosixPath(name)) != name or name.startswith("/"):
        return False
    return not any(part.startswith(".") for part in name.split("/"))


class Window(io.RawIOBase):
    """A part of an open file as a file of its own; closing it closes the whole."""

    def __init__(self, whole: IO[bytes], member: Member) -> None:
        self._whole = whole
        self._member = member
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place in the part."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._member.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Read what fits, up to the part's end."""
        self._whole.seek(self._member.offset + self._at)
        content = self._whole.read(max(0, min(len(buffer), self._member.size - self._at)))
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)

    def close(self) -> None:
        """Close the file that it is a part of."""
        self._whole.close()
        super().close()
