"""Writers killed at random instants, and writers that run out of room.

A fork server imports the package once; each writer is a fork of it that makes random changes of an index and logs
each before it begins and after it returned. What is in the index after a kill must be what the changes that returned
made of it, or that and all of the one that had begun.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from factlearn.facts import Fact
from factlearn.retrieval import FactIndex
from factlearn.retrieval.folder import writer
from tests.retrieval.conftest import WORDS, compact, language_space, link

IDS = [f"set/{number}.png" for number in range(40)]
NOUNS, VERBS = ("person", "woman", "dog", "bike", "horse"), ("riding", "holding")


# The writer, in processes of its own


def serve():
    """Fork a writer for each line read; say its process id, and when it has ended."""
    language_space().embed([Fact(*WORDS[:1])])
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            write_forever(*json.loads(line))
            os._exit(1)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("ended", flush=True)


def write_forever(path, log, seed, room=None):
    """Random changes until killed, or until something fails, which is logged."""
    stream = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(**line):
        os.write(stream, (json.dumps(line) + "\n").encode())

    try:
        writer.MOST_SEGMENTS = 4  # so that changes join segments often
        rng = np.random.default_rng(seed)
        index = FactIndex.open(path, language_space())
        while True:
            change = random_change(rng, index.ids)
            note(begun=change)
            with files_of_at_most(room):
                make(index, change)
            note(done=True)
    except BaseException as error:
        note(failed=traceback.format_exc(), kind=[cls.__name__ for cls in type(error).__mro__])


@contextmanager
def files_of_at_most(room):
    free = resource.getrlimit(resource.RLIMIT_FSIZE)
    if room is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, free[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, free)


def random_change(rng, ids):
    kind = rng.choice(["add", "add", "add", "remove", "remove", "compact", "link", "optimize", "replace"])
    if kind in ("add", "replace"):
        chosen = rng.choice(IDS, rng.integers(1, 9), replace=False).tolist()
        subject, predicate, object_ = rng.choice(NOUNS), rng.choice(VERBS), rng.choice(NOUNS)
        seeds = rng.integers(1 << 30, size=len(chosen)).tolist()
        return {
            "kind": str(kind),
            "images": dict(zip(chosen, seeds, strict=True)),
            "fact": [subject, predicate, object_],
        }
    if kind == "remove" and len(ids) > 6:
        return {"kind": "remove", "ids": rng.choice(ids, rng.integers(1, len(ids) // 2), replace=False).tolist()}
    return {"kind": str(kind) if kind != "remove" else "compact"}


def make(index, change):
    if change["kind"] in ("add", "replace"):
        images = arguments(change["images"])
        facts = [Fact(*change["fact"])]
        if change["kind"] == "add":
            index.add(**images, known_facts=facts, model="m")
        else:
            FactIndex.create(
                index.path, **images, known_facts=facts, model="m", language=language_space(), overwrite=True
            )
    elif change["kind"] == "remove":
        index.remove(change["ids"])
    elif change["kind"] == "optimize":
        index.optimize(kinds=("hnsw",), per_pattern=2, target_recall=0.0)
    else:
        {"compact": compact, "link": link}[change["kind"]](index.path)
    index.reload()


def arguments(images):
    """What an image is follows from its number."""
    return {
        "vectors": np.stack([vector(seed) for seed in images.values()]),
        "ids": list(images),
        "paths": [f"/pictures/{seed}" for seed in images.values()],
        "metadata": [{"seed": str(seed)} for seed in images.values()],
    }


def vector(seed):
    return np.random.default_rng(seed).normal(size=(3, 8)).astype(np.float32)


# The test's own account


def after(state, change):
    """The images and facts that a change leaves."""
    images, facts = state
    if change["kind"] == "replace":
        images, facts = {}, set()
    if change["kind"] in ("add", "replace"):
        return {**images, **change["images"]}, facts | {str(Fact(*change["fact"]))}
    return {name: seed for name, seed in images.items() if name not in change.get("ids", ())}, facts


def check(path, possible):
    """The state of an index, which must be whole and one of the possible."""
    index = FactIndex.open(path)
    assert index.verify() == []
    items = index.items()
    images = {item["id"]: int(item["metadata.seed"]) for item in items}
    assert len(images) == len(items) == len(index)
    found = (images, {str(fact) for fact in index.facts})
    assert found in possible, "the index is neither what was committed nor what was being made"
    np.testing.assert_array_equal(index.vectors, np.stack([vector(seed) for seed in images.values()]))
    assert [item["path"] for item in items] == [f"/pictures/{seed}" for seed in images.values()]
    hits = index.query(index.facts[0], k=100)
    assert {hit.id for hit in hits} == set(images) or not index.store.exact
    return found


class Server:
    """The fork server, as seen from the test."""

    def __init__(self):
        code = "from tests.retrieval.folder.test_writer import serve; serve()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def write(self, *what):
        """Start a writer; its process id."""
        print(json.dumps(what), file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def wait(self):
        assert self.process.stdout.readline() == "ended\n"


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.process.stdin.close()
    server.process.wait()


@pytest.fixture
def start(tmp_path):
    """An index, and the state it is in."""
    images = {name: place for place, name in enumerate(IDS[:20])}
    facts = [Fact("person", "riding", "bike")]
    path = tmp_path / "index"
    FactIndex.create(path, **arguments(images), language=language_space(), model="m", known_facts=facts)
    return path, (images, set(map(str, facts)))


def kill_often(server, start, log, times, seed, longest):
    """How many changes returned, and how many kills hit one that had not."""
    path, state = start
    rng = np.random.default_rng(seed)
    done = hit = 0
    for number in range(times):
        log.write_text("")
        writer = server.write(str(path), str(log), [seed, number])
        while not log.stat().st_size:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, longest))
        os.kill(writer, signal.SIGKILL)
        server.wait()
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        possible = [state]
        for line in lines:
            assert "failed" not in line, line
            if "done" in line:
                done += 1
                possible = possible[-1:]
            else:
                possible.append(after(possible[-1], line["begun"]))
        hit += "begun" in lines[-1]
        state = check(path, possible)
    return done, hit


def test_a_writer_killed_at_any_instant_leaves_the_old_state_or_the_new(server, start, tmp_path):
    done, hit = kill_often(server, start, tmp_path / "log", 8, 0, 0.2)
    assert done > 0
    assert hit > 3


@pytest.mark.slow
def test_of_200_kills_none_corrupts_the_index_or_loses_what_was_committed(server, start, tmp_path):
    done, hit = kill_often(server, start, tmp_path / "log", 200, 1, 0.6)
    print(f"200 kills, {hit} of them during a change; {done} changes committed; 0 corrupt, 0 lost")
    assert hit > 100


@pytest.mark.parametrize("room", [0, 1000, 2000, 2500])
def test_a_writer_that_runs_out_of_room_leaves_the_last_state(server, start, tmp_path, room):
    """Files may not grow beyond `room` bytes, so that each kind of file is at times the one that fails."""
    path, state = start
    server.write(str(path), str(tmp_path / "log"), [room], room)
    server.wait()
    *lines, failure = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {"OSError", "FactlearnError", "RuntimeError"} & set(failure["kind"]), failure["failed"]
    possible = [state]
    for line in lines:
        possible = possible[-1:] if "done" in line else [*possible, after(possible[-1], line["begun"])]
    check(path, possible[:1])
    FactIndex.open(path).add(**arguments({"after": 5}), model="m")
    assert FactIndex.open(path).verify() == []
