"""Archives that somebody else made: nothing is written outside the folder, and little is read before it is believed."""

import hashlib
import io
import json
import tarfile
import tracemalloc

import pytest

from factlearn.errors import BackupError
from factlearn.upkeep.archive import ABOUT, SUMS, Writer, extract
from factlearn.upkeep.backup import restore

ABOUT_IT = {"format": "factlearn backup", "version": 1, "kind": "run"}


def write(path, files, about=ABOUT_IT):
    """An archive as the writer makes it."""
    with open(path, "wb") as stream:
        writer = Writer(stream, about)
        for name, content in files.items():
            writer.add(name, io.BytesIO(content), len(content))
        writer.finish()
    return path


def unpack(path, folder):
    folder.mkdir()
    with open(path, "rb") as stream:
        extract(stream, path, folder)
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_what_is_written_is_read_back_also_by_tar_and_sha256sum(tmp_path):
    deep = "/".join(["a-long-name-of-a-task"] * 12)
    files = {"data/a.json": b"{}", f"data/{deep}/photos.jsonl": b"x" * 1500, "data/empty": b"", "data/grün.txt": b"1"}
    path = write(tmp_path / "a.tar", files)
    assert unpack(path, tmp_path / "out") == {name.removeprefix("data/"): content for name, content in files.items()}
    with tarfile.open(path) as archive:
        assert archive.getnames() == [ABOUT, *files, SUMS]
        sums = archive.extractfile(SUMS).read().decode().splitlines()
    assert f"{hashlib.sha256(b'{}').hexdigest()}  data/a.json" in sums


def forged(path, members):
    """A tar of any members, with checksums that are right."""
    sums = ""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for header, content in members:
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
            sums += f"{hashlib.sha256(content).hexdigest()}  {header.name}\n"
        last = tarfile.TarInfo(SUMS)
        last.size = len(sums.encode())
        archive.addfile(last, io.BytesIO(sums.encode()))
    return path


def header(name, kind=tarfile.REGTYPE, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


FIRST = (header(ABOUT), json.dumps(ABOUT_IT).encode())
FORGED = {
    "a way up": [(header("data/../../evil"), b"x")],
    "an absolute path": [(header("/tmp/evil"), b"x")],
    "a drive": [(header("data/C:/evil"), b"x")],
    "a backslash": [(header("data/..\\evil"), b"x")],
    "a control character": [(header("data/a\nb"), b"x")],
    "a place outside data": [(header("other/a"), b"x")],
    "a symbolic link": [(header("data/link", tarfile.SYMTYPE, "/etc"), b"")],
    "a hard link": [(header("data/link", tarfile.LNKTYPE, "/etc/passwd"), b"")],
    "a device": [(header("data/null", tarfile.CHRTYPE), b"")],
    "a pipe": [(header("data/pipe", tarfile.FIFOTYPE), b"")],
    "a folder": [(header("data/folder", tarfile.DIRTYPE), b"")],
    "a sparse file": [(header("data/sparse", tarfile.GNUTYPE_SPARSE), b"")],
    "an extended header": [(header("data/pax", tarfile.XHDTYPE), b"30 size=99999999999999999999\n")],
    "a file twice": [(header("data/a"), b"x"), (header("data/a"), b"y")],
    "a file below a file": [(header("data/a"), b"x"), (header("data/a/b"), b"y")],
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_archive_is_refused_and_nothing_is_left(tmp_path, what):
    folder = tmp_path / "here" / "out"
    path = forged(tmp_path / "forged.tar", [FIRST, *FORGED[what]])
    with pytest.raises(BackupError):
        restore(path, folder)
    assert not list((tmp_path / "here").glob("*"))
    assert [file.name for file in tmp_path.iterdir()] in (["forged.tar", "here"], ["here", "forged.tar"])


def test_every_cut_and_every_flipped_bit_is_noticed(tmp_path):
    files = {"data/config.yaml": b"seed: 1\n" * 20, "data/run.json": b"{}"}
    path = write(tmp_path / "a.tar", files)
    whole = path.read_bytes()
    end = whole.rindex(b"data/run.json") // 512 * 512 + 512  # behind it is padding
    for place in [*range(0, end, 37)]:
        cut, flipped = whole[:place], bytearray(whole)
        flipped[place] ^= 1 << place % 8
        for number, content in enumerate((cut, bytes(flipped))):
            path.write_bytes(content)
            try:
                found = unpack(path, tmp_path / f"{place}-{number}")
            except BackupError:
                continue
            assert found == {name.removeprefix("data/"): content for name, content in files.items()}


def test_sizes_that_an_archive_claims_are_not_allocated(tmp_path):
    """Headers of 8 GB and of 2^80 bytes, with a right checksum, over a file of one kilobyte."""
    for size in (b"77777777777\0", b"\x80" + b"\xff" * 11):
        raw = bytearray(header(ABOUT).tobuf(tarfile.GNU_FORMAT))
        raw[124:136] = size
        raw[148:156] = b" " * 8
        raw[148:156] = b"%06o\0 " % sum(raw)
        (tmp_path / "big.tar").write_bytes(bytes(raw) + bytes(1024))
        tracemalloc.start()
        with pytest.raises(BackupError, match="truncated"):
            restore(tmp_path / "big.tar", tmp_path / "out")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()
