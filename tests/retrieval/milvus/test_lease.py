"""One process at a time writes to an index in Milvus."""

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("pymilvus")
pytest.importorskip("milvus_lite")

from factlearn.errors import FactIndexError
from factlearn.retrieval import FactIndex
from factlearn.retrieval.milvus import lease, writer
from tests.retrieval.milvus.images import collection, make


def test_a_second_writer_is_kept_out_until_the_first_is_done(address, monkeypatch):
    monkeypatch.setattr(lease, "PATIENCE", 0.5)
    images = collection(30)
    index, other = make(address, images), FactIndex.open(address)
    finish = writer._Change.finish

    def meanwhile(change):
        monkeypatch.setattr(writer._Change, "finish", finish)
        with pytest.raises(FactIndexError, match="being written by another process"):
            other.remove(images["ids"][:2])
        finish(change)

    monkeypatch.setattr(writer._Change, "finish", meanwhile)
    assert index.remove(images["ids"][5:6]) == 1
    assert other.remove(images["ids"][:2]) == 2
    assert other.verify() == []
    assert len(other) == 27


def test_two_writers_at_the_same_instant_do_not_both_write(address):
    images = collection(30)
    indexes = [make(address, images), FactIndex.open(address), FactIndex.open(address)]
    inside, most = [], []

    class Watched(writer._Change):
        def __init__(self, *arguments):
            inside.append(1)
            most.append(len(inside))
            super().__init__(*arguments)

        def finish(self):
            super().finish()
            inside.pop()

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(3) as pool:
        patch.setattr(writer, "_Change", Watched)
        removed = list(pool.map(lambda turn: indexes[turn].remove(images["ids"][turn : turn + 1]), range(3)))
    assert removed == [1, 1, 1]
    assert max(most) == 1
    assert len(FactIndex.open(address)) == 27


def holder(**changes):
    return lease.Holder(host="there", pid=os.getpid(), world="elsewhere", until=time.time() + 60, **changes)


def test_a_lease_ends_when_its_time_is_over_or_its_process_is_seen_to_be_gone():
    other = holder()
    assert other.is_alive("lease-x")
    assert not other.model_copy(update={"until": time.time() - 1}).is_alive("lease-x")
    here = other.model_copy(update={"world": lease._world()})
    assert not here.is_alive("lease-x")  # this process, which holds no such lease
    with subprocess.Popen(["sleep", "60"]) as process:
        neighbour = here.model_copy(update={"pid": process.pid})
        assert neighbour.is_alive("lease-x")
        process.kill()
        process.wait()
    assert not neighbour.is_alive("lease-x")


def test_a_writer_that_lost_its_lease_does_not_commit(address, monkeypatch):
    images = collection(30)
    index = make(address, images)
    records = index.store._records
    finish = writer._Change.finish

    def stood_still(change):
        records.forget(list(records.leases()))
        finish(change)

    with monkeypatch.context() as patch:
        patch.setattr(writer._Change, "finish", stood_still)
        with pytest.raises(FactIndexError, match="may have been written by another process"):
            index.remove(images["ids"][:1])
    assert any("interrupted" in problem for problem in FactIndex.open(address).verify())
