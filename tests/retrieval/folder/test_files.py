import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

from factlearn.errors import FactIndexError
from factlearn.facts import Fact
from factlearn.retrieval import FactIndex
from factlearn.retrieval.folder import files
from factlearn.retrieval.folder.manifest import read_manifest
from tests.retrieval.conftest import compact, language_space, link, more_images
from tests.retrieval.folder.damage import answers


def test_an_opened_index_answers_the_same_whatever_others_write_until_it_is_reloaded(grown, collection):
    opened = FactIndex.open(grown.path)
    before = answers(FactIndex.open(grown.path))  # `opened` itself has read no vectors yet
    grown.add(**more_images(8, seed=9), model="m3", known_facts=[Fact("dog", "holding", "golf")])
    grown.remove(pattern="set/1*")
    compact(grown.path)
    grown.remove(where="year < 1995")
    compact(grown.path)
    link(grown.path)
    assert answers(opened) == before
    opened.reload()
    assert answers(opened) != before
    assert answers(opened) == answers(FactIndex.open(grown.path))
    assert opened.query("<dog, holding, golf>")  # the added fact's words came with the new state


def test_a_query_reads_the_manifest_once(index, monkeypatch):
    read = []

    def counted(*arguments):
        read.append(arguments)
        return read_manifest(*arguments)

    monkeypatch.setattr(files, "read_manifest", counted)
    assert FactIndex.open(index.path).query("person riding bike", also=["<dog>"], without=["<*, holding>"])
    assert len(read) == 1


def test_an_index_opened_before_it_was_replaced_keeps_answering_in_its_own_language(index, collection):
    before = index.query("<dog>")
    opened = FactIndex.open(index.path)
    other = language_space(seed=7)
    moved = {**collection, "vectors": collection["vectors"] + 1}
    FactIndex.create(index.path, **moved, language=other, model="m2", overwrite=True)
    assert opened.query("<dog>") == index.query("<dog>") == before
    with pytest.raises(FactIndexError, match="language space"):
        index.add(**more_images(2), model="m1")
    assert len(FactIndex.open(index.path)) == 120


def test_one_writers_facts_survive_another_that_had_not_seen_them(index):
    other = FactIndex.open(index.path)
    index.add(**more_images(2), model="m1", known_facts=[Fact("horse", "holding", "golf")])
    added = [Fact("woman", "riding", "horse")]
    other.add(**more_images(2, prefix="x"), model="m1", known_facts=added, language=language_space())
    newest = FactIndex.open(index.path)
    assert {Fact("horse", "holding", "golf"), Fact("woman", "riding", "horse")} <= set(newest.facts)
    assert newest.facts == tuple(sorted(newest.facts))
    assert newest.facts_of(newest.vectors[0])
    assert len(newest) == 124


def test_what_no_state_refers_to_is_swept_up(grown):
    (grown.path / "segments" / ".000009-1.123-abc.tmp").mkdir()
    (grown.path / "structures" / "000001-9").mkdir()
    (grown.path / ".index.json.123-abc.tmp").write_text("{")
    compact(grown.path)
    files = {"/".join(Path(name).parts[:2]) for name in read_manifest(grown.path).all_files()}
    kinds = ("segments", "deleted", "structures", "language")
    there = {f"{kind}/{entry.name}" for kind in kinds for entry in (grown.path / kind).glob("*")}
    assert there == files
    assert {entry.name for entry in grown.path.iterdir()} - set(kinds) == {"index.json", "index.copy.json", "lock"}


def start(function, *arguments):
    """Another process that calls a function of this file."""
    code = f"import tests.retrieval.folder.test_files as here; here.{function.__name__}{arguments!r}"
    return subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3])


def write_for(path, seconds, prefix):
    index = FactIndex.open(path)
    until = time.monotonic() + seconds
    for number in range(10**6):
        index.add(**more_images(3, seed=number, prefix=prefix), model="m1")
        if number % 3 == 1:
            index.remove([f"{prefix}/0.png"])
        if number % 4 == 2:
            link(Path(path))
        if number % 5 == 3:
            compact(Path(path))
        if time.monotonic() > until:
            break


def test_readers_racing_with_two_writers_never_fail_and_see_whole_states(index, collection):
    writers = [start(write_for, str(index.path), 2.0, prefix) for prefix in ("a", "b")]
    first = read_manifest(index.path).generation
    opened = 0
    try:
        while any(writer.poll() is None for writer in writers):
            reader = FactIndex.open(index.path)
            ids = set(reader.ids)
            assert set(collection["ids"]) <= ids
            for prefix in ("a", "b"):
                assert {f"{prefix}/1.png" in ids, f"{prefix}/2.png" in ids} in ({True}, {False})
            assert len(reader.query("<person, riding, *>", k=500)) == len(ids) == len(reader)
            opened += 1
    finally:
        for writer in writers:
            with contextlib.suppress(ProcessLookupError):
                writer.terminate()
    assert [writer.wait() for writer in writers] == [0, 0]
    newest = FactIndex.open(index.path)
    assert opened > 10
    assert newest.store.manifest.generation > first + 10
    assert {f"{prefix}/{number}.png" for prefix in "ab" for number in (1, 2)} <= set(newest.ids)
    assert not newest.verify()
