"""Backups of runs and indexes, taken while they are being written to."""

import threading

import numpy as np
import pytest

from factlearn.errors import BackupError
from factlearn.facts import Fact
from factlearn.learning.runs import Run
from factlearn.retrieval import FactIndex
from factlearn.upkeep.backup import backup, restore
from tests.cli.commands import factlearn, output_of
from tests.learning.helpers import assert_same_run, learn
from tests.retrieval.conftest import language_space


def vectors(seed, count=3):
    return np.random.default_rng(seed).normal(size=(count, 3, 8)).astype(np.float32)


@pytest.fixture
def index(tmp_path):
    return FactIndex.create(
        tmp_path / "index",
        vectors(0),
        ["0-0", "0-1", "0-2"],
        paths=["photo.png"] * 3,
        language=language_space(),
        model="m",
        known_facts=[Fact("person", "riding", "bike")],
    )


def in_the_background(work):
    """Do something in another thread; its errors are raised by `join`."""
    failed = []

    def run():
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def join():
        thread.join()
        if failed:
            raise failed[0]

    return thread, join


def test_an_index_comes_back_with_the_same_answers(index, tmp_path):
    index.add(vectors(1), ["1-0", "1-1", "1-2"], paths=["photo.png"] * 3, model="m")
    index.remove(["0-1"])
    assert "an index" in output_of("backup", "index", "index.tar", cwd=tmp_path)
    output_of("restore", "index.tar", "again", cwd=tmp_path)
    again = FactIndex.open(tmp_path / "again")
    assert again.verify() == []
    assert again.items() == FactIndex.open(index.path).items()
    query = Fact("person", "riding", "bike")
    index.reload()
    assert again.query(query) == index.query(query)


def test_backups_of_an_index_that_is_written_to_hold_one_of_its_states(index, tmp_path):
    """Each addition brings three images at once and every fifth change removes all but the last of them."""
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            index.add(vectors(number), [f"{number}-{part}" for part in range(3)], paths=["photo.png"] * 3, model="m")
            if number % 5 == 0:
                index.reload()
                index.remove([name for name in index.ids if not name.startswith(f"{number}-")])

    _, join = in_the_background(write)
    generations = set()
    try:
        for number in range(12):
            backup(index.path, tmp_path / "index.tar", overwrite=True)
            restore(tmp_path / "index.tar", tmp_path / str(number))
            again = FactIndex.open(tmp_path / str(number))
            assert again.verify() == []
            groups = {name.split("-")[0] for name in again.ids}
            assert len(again.ids) == 3 * len(groups), "part of an addition"
            assert [item["id"] for item in again.items()] == sorted(again.ids, key=lambda n: (int(n[:-2]), n))
            generations.add(again.store.manifest.generation)
    finally:
        stop.set()
        join()
    assert len(generations) > 3


def test_every_backup_of_a_run_that_is_learning_resumes_to_the_same_run(digits_config, tmp_path):
    whole = learn(digits_config, tmp_path / "whole")
    thread, join = in_the_background(lambda: learn(digits_config, tmp_path / "run"))
    while not (tmp_path / "run" / "run.json").is_file():
        thread.join(0.001)
    taken = 0
    while thread.is_alive():
        backup(tmp_path / "run", tmp_path / f"{taken}.tar")
        taken += 1
        thread.join(0.02)
    join()
    assert taken > 3
    for number in range(0, taken, max(1, taken // 3)):
        restore(tmp_path / f"{number}.tar", tmp_path / f"again-{number}")
        assert_same_run(whole, learn(digits_config, tmp_path / f"again-{number}", resume=True))


def test_a_damaged_index_is_not_backed_up(index, tmp_path):
    rows = next(index.path.glob("segments/*/rows.npy"))
    content = bytearray(rows.read_bytes())
    content[200] ^= 1
    rows.write_bytes(content)
    with pytest.raises(BackupError, match="damaged"):
        backup(index.path, tmp_path / "index.tar")
    assert not (tmp_path / "index.tar").exists()


def test_a_backup_that_was_damaged_leaves_nothing(index, tmp_path):
    backup(index.path, tmp_path / "index.tar")
    content = bytearray((tmp_path / "index.tar").read_bytes())
    content[len(content) // 2] ^= 4
    (tmp_path / "index.tar").write_bytes(content)
    with pytest.raises(BackupError):
        restore(tmp_path / "index.tar", tmp_path / "again")
    assert not (tmp_path / "again").exists()


MISTAKES = {
    "neither": (["backup", "void", "x.tar"], "neither a run nor an index"),
    "nothing": (["backup", "nowhere", "x.tar"], "neither a run nor an index"),
    "a server": (["backup", "milvus://host/photos", "x.tar"], "server's own tools"),
    "an existing file": (["backup", "index", "there.tar"], "--overwrite"),
    "a folder for a file": (["backup", "index", "void"], "is a folder"),
    "restoring nothing": (["restore", "no.tar", "x"], "does not exist"),
    "restoring a folder": (["restore", "void", "x"], "is a folder"),
    "restoring what is no backup": (["restore", "there.tar", "x"], "there.tar"),
    "restoring over something": (["restore", "there.tar", "index"], "new folder"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_get_one_sentence_and_leave_nothing(index, tmp_path, what):
    (tmp_path / "void").mkdir()
    (tmp_path / "there.tar").write_bytes(b"not a tar" * 100)
    arguments, words = MISTAKES[what]
    before = sorted(path.name for path in tmp_path.iterdir())
    done = factlearn(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert words in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_run_with_a_linked_folder_is_refused(digits_config, tmp_path):
    run = learn(digits_config, tmp_path / "run", training__epochs=1, stop_after=1)
    (run.folder / "stages").rename(tmp_path / "elsewhere")
    (run.folder / "stages").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BackupError, match="link"):
        backup(run.folder, tmp_path / "run.tar")
    assert Run.open(run.folder).finished_stages() == 1
