import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from factlearn.assets import ASSETS, Asset, PipPackage

CONTENT = "three words of content"


def unpack_note(package: Path, folder: Path) -> None:
    """A converter for the tests' own packages: keeps the note inside."""
    with zipfile.ZipFile(package) as archive:
        (folder / "note.txt").write_bytes(archive.read("tiny_note/note.txt"))


def copy_note(source: Path, folder: Path) -> None:
    (folder / "note.txt").write_bytes(source.read_bytes())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("FACTLEARN_CACHE", str(folder))
    monkeypatch.delenv("FACTLEARN_OFFLINE", raising=False)
    return folder


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for the only registry there is; it holds the wheel tiny-note 1.0."""
    folder = tmp_path / "registry"
    folder.mkdir()
    with zipfile.ZipFile(folder / "tiny_note-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_note/note.txt", CONTENT)
        wheel.writestr("tiny_note-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-note\nVersion: 1.0\n")
        wheel.writestr(
            "tiny_note-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr("tiny_note-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def named(registry: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Asset]:
    """Registers an asset `note` that comes from the test's registry, with any field replaced."""

    def make(sha256: str = "", **fields: object) -> Asset:
        wheel = registry / "tiny_note-1.0-py3-none-any.whl"
        right = hashlib.sha256(wheel.read_bytes()).hexdigest()
        package = PipPackage("tiny-note", "1.0", wheel.name, sha256 or right, wheel.stat().st_size, unpack_note)
        values: dict[str, object] = {
            "name": "note",
            "kind": "vectors",
            "description": "a note",
            "licence": "none",
            "sources": (package,),
            "from_user": copy_note,
            "user_file": "a text file",
            "files": ("note.txt",),
        }
        asset = Asset(**(values | fields))  # type: ignore[arg-type]
        monkeypatch.setitem(ASSETS, asset.name, asset)
        return asset

    return make
