import json
import math
import os
import resource
import signal
import subprocess
import sys

import pytest

from factlearn.files import atomic_directory, atomic_write, fingerprint, sha256_file, write_json


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_a_written_file_holds_what_was_written_and_nothing_else_is_left(tmp_path):
    with atomic_write(tmp_path / "new" / "a.txt") as stream:
        stream.write("grüezi\n")
    assert (tmp_path / "new" / "a.txt").read_text(encoding="utf-8") == "grüezi\n"
    assert names(tmp_path / "new") == ["a.txt"]


def test_the_old_content_stays_until_the_block_ends(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with atomic_write(path, "wb") as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def fail_in(block):
    with block as target:
        if hasattr(target, "write"):
            target.write("half")
        else:
            (target / "half.txt").write_text("half")
        raise KeyboardInterrupt


@pytest.mark.parametrize("writer", [atomic_write, atomic_directory])
def test_an_error_leaves_the_old_content_and_no_trace(tmp_path, writer):
    path = tmp_path / "it"
    if writer is atomic_directory:
        path.mkdir()
        (path / "old.txt").write_text("old")
    else:
        path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        fail_in(writer(path))
    assert names(tmp_path) == ["it"]
    assert (path / "old.txt" if path.is_dir() else path).read_text() == "old"


@pytest.mark.parametrize("writer", [atomic_write, atomic_directory])
def test_an_error_on_the_first_write_leaves_nothing(tmp_path, writer):
    with pytest.raises(KeyboardInterrupt):
        fail_in(writer(tmp_path / "it"))
    assert names(tmp_path) == []


def test_a_folder_appears_whole_and_replaces_the_old_one_wholly(tmp_path):
    path = tmp_path / "folder"
    for round_, files in enumerate((["a", "b"], ["c"])):
        with atomic_directory(path) as folder:
            for file in files:
                (folder / "deep").mkdir(exist_ok=True)
                (folder / "deep" / file).write_text(str(round_))
        assert names(path / "deep") == files
    assert names(tmp_path) == ["folder"]


WRITES_FOREVER = """
import sys
from pathlib import Path
from factlearn.files import write_json
path = Path(sys.argv[1])
number = 0
while True:
    number += 1
    write_json(path, {"number": number, "ballast": [number] * 20000})
    print(number, flush=True)
"""


def test_a_kill_leaves_a_whole_file(tmp_path):
    path = tmp_path / "state.json"
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", WRITES_FOREVER, str(path)], stdout=subprocess.PIPE)
        for _ in range(5):
            acknowledged = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        state = json.loads(path.read_text())
        assert state["number"] >= acknowledged
        assert state["ballast"] == [state["number"]] * 20000


def test_json_is_readable_text_and_refuses_nan(tmp_path):
    write_json(tmp_path / "a.json", {"word": "naïve", "list": [1, 2]})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"word": "naïve", "list": [1, 2]}
    assert "naïve" in (tmp_path / "a.json").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"loss": math.nan})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["list"] == [1, 2]
    assert names(tmp_path) == ["a.json"]


def test_sha256_is_of_the_bytes(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    assert sha256_file(tmp_path / "empty") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_fingerprints_depend_on_content_and_on_where_parts_end_but_not_on_key_order():
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    distinct = [
        fingerprint("ab", "c"),
        fingerprint("a", "bc"),
        fingerprint("abc"),
        fingerprint(b"abc"),
        fingerprint(["ab", "c"]),
        fingerprint(),
        fingerprint(""),
        fingerprint(1),
        fingerprint("1"),
    ]
    assert len(set(distinct)) == len(distinct)
    assert all(len(name) == 16 for name in distinct)


def test_a_folder_that_cannot_move_in_leaves_the_old_one_in_place(tmp_path, monkeypatch):
    """Where folders cannot be exchanged in one step and the second rename fails, the old folder comes back."""
    path = tmp_path / "it"
    path.mkdir()
    (path / "old.txt").write_text("old")
    real = os.rename

    def rename(source, target):
        if str(source).endswith(".tmp") and target == path and not (source / "old.txt").exists():
            raise OSError("no")
        real(source, target)

    monkeypatch.setattr("factlearn.files._exchange", lambda one, other: False)
    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(OSError, match="no"), atomic_directory(path) as folder:
        (folder / "new.txt").write_text("new")
    assert names(tmp_path) == ["it"]
    assert names(path) == ["old.txt"]


def test_a_folder_is_replaced_without_an_instant_in_which_it_is_missing(tmp_path):
    path = tmp_path / "it"
    for content in ("first", "second"):
        with atomic_directory(path) as folder:
            (folder / content).write_text(content)
    assert names(path) == ["second"]
    assert names(tmp_path) == ["it"]


def test_what_cannot_be_written_is_named_as_the_user_knows_it(tmp_path):
    """The system names a temporary file, or none when there is no room."""

    def write_in_a_folder(name, content):
        with atomic_directory(tmp_path / "it") as folder, atomic_write(folder / name, "wb") as stream:
            stream.write(content)

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"too large: '.*/it/a/large\.bin'$"):
            write_in_a_folder("a/large.bin", bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names(tmp_path) == []
    (tmp_path / "it").mkdir()
    with pytest.raises(IsADirectoryError) as caught, atomic_write(tmp_path / "it"):
        pass
    assert caught.value.filename == str(tmp_path / "it")
