"""The backup file: a plain tar of regular files that ends with their checksums.

    backup.json     first: what was backed up, when, by which version
    data/...        the files
    SHA256SUMS      last, so that a truncated archive has none; `sha256sum --check SHA256SUMS` works in an unpacked copy

The reader is our own and knows no more of tar than the writer uses. Nothing in an archive decides how much memory or
disk is taken: without compression, sparse files and links, what comes out is never larger than the archive. Python's
`tarfile` would read extended headers of any size into memory and has to be told, per feature, what not to follow.
"""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from factlearn.errors import BackupError
from factlearn.files import json_text

ABOUT, SUMS, DATA = "backup.json", "SHA256SUMS", "data"
_BLOCK = 512
_CHUNK = 1 << 20
_LONGEST_NAME = 4096
_MOST_FILES = 1_000_000
_LONGEST_ABOUT = 1 << 16
_SUM_LENGTH = 67  # 64 digits, two spaces and a line end
_REGULAR, _LONG_NAME = b"0", b"L"


class Member(NamedTuple):
    """A file of an archive: where it goes, how large it is, and where its content begins."""

    name: str
    size: int
    start: int


class Writer:
    """Writes an archive to an open file; `finish` adds the checksums."""

    def __init__(self, stream: IO[bytes], about: dict[str, Any]) -> None:
        self._tar = tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT)  # noqa: SIM115  (closed by `finish`)
        self._sums: list[str] = []
        self._add_text(ABOUT, json_text(about))

    def add(self, name: str, source: IO[bytes], size: int) -> str:
        """Copy the first `size` bytes of an open file; returns their SHA-256."""
        hashing = _Hashing(source)
        try:
            self._tar.addfile(_header(name, size), hashing)  # type: ignore[arg-type]
        except OSError as error:
            if error.errno is None:  # tarfile's own: the source ended early
                raise BackupError(f"{name} was cut short while it was being read; try again.") from error
            raise
        found = hashing.digest.hexdigest()
        self._sums.append(f"{found}  {name}\n")
        return found

    def _add_text(self, name: str, text: str) -> None:
        self.add(name, io.BytesIO(text.encode()), len(text.encode()))

    def finish(self) -> None:
        """Write the checksums and the end mark."""
        self._add_text(SUMS, "".join(self._sums))
        self._tar.close()


class _Hashing:
    """A file that hashes what is read of it."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        part = self._source.read(size)
        self.digest.update(part)
        return part


def _header(name: str, size: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size, header.mode = size, 0o644
    return header


def members(stream: IO[bytes], path: Path) -> Iterator[Member]:
    """The files of an archive in their order; the stream may be moved between them.

    Raises:
        BackupError: if the archive is truncated, holds anything but regular files, or names a place outside itself.
    """
    total = os.fstat(stream.fileno()).st_size
    at, long_name = 0, None
    while True:
        stream.seek(at)
        header = stream.read(_BLOCK)
        if header == bytes(_BLOCK):
            return
        size = _checked_size(header, path)
        start, at = at + _BLOCK, at + _BLOCK + -(-size // _BLOCK) * _BLOCK
        if at > total:
            raise BackupError(f"{path} is truncated; make the backup again.")
        kind = header[156:157]
        if kind == _LONG_NAME and size <= _LONGEST_NAME:
            long_name = stream.read(size).rstrip(b"\0")
        elif kind == _REGULAR:
            name = long_name if long_name is not None else header[:100].split(b"\0")[0]
            long_name = None
            yield Member(_safe_name(name, path), size, start)
        else:
            raise BackupError(f"{path} holds something other than regular files; factlearn did not make this backup.")


def _checked_size(header: bytes, path: Path) -> int:
    """The size that a header gives, if its checksum is right."""
    try:
        if len(header) < _BLOCK or int(header[148:156].strip(b" \0"), 8) != sum(header[:148] + header[156:]) + 256:
            raise ValueError
        if header[124] == 0x80:  # larger than eleven octal digits can say
            return int.from_bytes(header[125:136], "big")
        return int(header[124:136].strip(b" \0"), 8)
    except ValueError:
        raise BackupError(f"{path} is damaged or not a backup; make the backup again.") from None


def _safe_name(raw: bytes, path: Path) -> str:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        name = ""
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\\" in part or ":" in part or not part.isprintable() for part in parts):
        raise BackupError(f"{path} names {raw[:200]!r}, which is no place inside a backup; it was not unpacked.")
    return name


def extract(stream: IO[bytes], path: Path, folder: Path) -> None:
    """Unpack the files below `data/` into a folder, each checked against its checksum.

    Raises:
        BackupError: if the archive is not whole or not as it was written.
    """
    found = list(islice(members(stream, path), _MOST_FILES))
    names = [member.name for member in found]
    if len(names) < 2 or len(set(names)) < len(names) or (names[0], names[-1]) != (ABOUT, SUMS):
        raise BackupError(f"{path} is not a whole backup; make the backup again.")
    sums = _read_sums(stream, found[-1], sum(map(len, names)) + _SUM_LENGTH * len(names), path)
    if list(sums) != names[:-1]:
        raise BackupError(f"{path} does not hold the files that its {SUMS} lists; make the backup again.")
    for member in found[:-1]:
        inside = PurePosixPath(member.name)
        target = folder.joinpath(*inside.parts[1:]) if inside.parts[0] == DATA and len(inside.parts) > 1 else None
        if target is None and member.name != ABOUT:
            raise BackupError(f"{path} holds {member.name}, which belongs to no backup; it was not unpacked.")
        if _copy(stream, member, target) != sums[member.name]:
            raise BackupError(f"{path} is damaged: {member.name} has another checksum than when it was backed up.")


def read_about(stream: IO[bytes], path: Path) -> dict[str, Any]:
    """What the archive says of itself.

    Raises:
        BackupError: if it says nothing.
    """
    first = next(members(stream, path), None)
    if first is None or first.name != ABOUT or first.size > _LONGEST_ABOUT:
        raise BackupError(f"{path} is not a backup that factlearn made.")
    stream.seek(first.start)
    try:
        about = json.loads(stream.read(first.size))
    except (ValueError, RecursionError):
        about = None
    if not isinstance(about, dict):
        raise BackupError(f"{path} is damaged: its {ABOUT} cannot be read.")
    return about


def _read_sums(stream: IO[bytes], member: Member, most: int, path: Path) -> dict[str, str]:
    stream.seek(member.start)
    try:
        lines = [line.split("  ", 1) for line in stream.read(min(member.size, most)).decode().splitlines()]
        return {name: digest for digest, name in lines}
    except ValueError:
        raise BackupError(f"The checksums in {path} cannot be read; make the backup again.") from None


def _copy(stream: IO[bytes], member: Member, target: Path | None) -> str:
    """Copy a member to a new file, or nowhere; returns the SHA-256 of what was copied."""
    digest = hashlib.sha256()
    try:
        if target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
        with open(target or os.devnull, "xb" if target else "wb") as out:
            for part in _parts(stream, member):
                digest.update(part)
                out.write(part)
    except (FileExistsError, NotADirectoryError):
        raise BackupError(f"{member.name} is both a file and a folder; factlearn did not make this backup.") from None
    return digest.hexdigest()


def _parts(stream: IO[bytes], member: Member) -> Iterable[bytes]:
    stream.seek(member.start)
    left = member.size
    while left:
        part = stream.read(min(left, _CHUNK))
        if not part:
            return
        left -= len(part)
        yield part
