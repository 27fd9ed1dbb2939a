"""Changes of an index that are killed, or whose file operations fail: it holds what was committed, and is whole."""

import itertools
import shutil
import signal
from pathlib import Path

import numpy as np

from factlearn.errors import FactlearnError
from factlearn.facts import Fact
from factlearn.retrieval import FactIndex
from tests.retrieval.conftest import language_space
from tests.retrieval.folder.damage import damage, files_of
from tests.retrieval.folder.test_writer import IDS, Server, after, arguments, check, kill_often, make
from tests.soak import faults
from tests.soak.faults import Mode


def _images(ids, first):
    return {name: first + place for place, name in enumerate(ids)}


CHANGES = (
    {"kind": "add", "images": _images(IDS[15:25], 100), "fact": ["dog", "holding", "bike"]},
    {"kind": "remove", "ids": IDS[3:9]},
    {"kind": "compact"},
    {"kind": "optimize"},
    {"kind": "replace", "images": _images(IDS[:5], 200), "fact": ["dog", "riding", "horse"]},
)


# In processes of their own


def change(path, what, counts=None, nth=0, mode=Mode.COUNT, code=0):
    """One change of an index; exit code 2 for an error that the command line turns into a sentence."""
    index = FactIndex.open(path, language_space())
    faults.arm(Path(path).resolve().parent, nth, mode, code)
    try:
        make(index, what)
    except (FactlearnError, OSError) as error:
        print(error)
        return 2
    finally:
        if counts:
            Path(counts).write_text(str(faults.counted()))
    return 0


# The harness's own account


def begin(path):
    """An index, and the state it is in."""
    images = {name: place for place, name in enumerate(IDS[:20])}
    facts = [Fact("person", "riding", "bike")]
    FactIndex.create(path, **arguments(images), language=language_space(), model="m", known_facts=facts)
    return images, set(map(str, facts))


def kill_at_random(folder, times, seed, longest=0.2):
    """Kill writers at random instants; returns how many kills there were, hit a change, and how many were committed."""
    folder.mkdir(parents=True)
    path = folder / "index"
    state = begin(path)
    server = Server()
    try:
        done, hit = kill_often(server, (path, state), folder / "log", times, seed, longest)
    finally:
        server.process.stdin.close()
        server.process.wait()
    return times, hit, done


class Indexes:
    """An index to be copied for each fault."""

    def __init__(self, forks, folder):
        self.forks, self.folder = forks, folder
        folder.mkdir(parents=True)
        self.state = begin(folder / "start")

    def fail_in_turn(self, modes, step=1):
        """Let each call of each change in turn go wrong in each way; how many of each kind, and of each exit code."""
        done, outcomes = dict.fromkeys(modes, 0), {}
        errors = itertools.cycle(faults.ERRORS)
        for what in CHANGES:
            place, counts = self._fresh(), self.folder / "counts"
            assert self._change(place, what, counts=str(counts)) == 0, self.forks.said
            calls = int(counts.read_text())
            for mode, nth in itertools.product(modes, range(1, calls + 1, step)):
                place = self._fresh()
                code = self._change(place, what, nth=nth, mode=int(mode), code=next(errors))
                self._check(place, what, code, mode, nth)
                done[mode] += 1
                outcomes[code] = outcomes.get(code, 0) + 1
        return done, outcomes

    def _fresh(self):
        place = self.folder / "work"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        shutil.copytree(self.folder / "start", place / "index")
        return place / "index"

    def _change(self, place, what, **fault):
        return self.forks.run("tests.soak.indexes:change", path=str(place), what=what, **fault)

    def _check(self, place, what, code, mode, nth):
        said = f"call {nth} of {what['kind']}, {mode.name}: {code}, {self.forks.said}"
        assert "Traceback" not in said, said
        allowed = {Mode.FAIL: (0, 2), Mode.FAIL_FROM: (0, 2), Mode.SHORT: (0,)}.get(mode, (-signal.SIGKILL, 0))
        assert code in allowed, said
        changed = after(self.state, what)
        found = check(place, [changed] if code == 0 else [self.state, changed])
        new = {"kind": "add", "images": {"later.png": 7}, "fact": ["dog", "riding", "bike"]}
        assert self._change(place, new) == 0, f"{said}; then: {self.forks.said}"
        check(place, [after(found, new)])


def flip_bits(folder, times, seed):
    """Damage an index at random; a query is answered as before or refused. How often it was answered and refused."""
    folder.mkdir(parents=True)
    begin(folder / "start")
    query = Fact("person", "riding", "bike")
    start = FactIndex.open(folder / "start")
    expected, files = start.query(query, k=100), [file.relative_to(start.path) for file in files_of(start)]
    rng = np.random.default_rng(seed)
    answered = refused = 0
    for number in range(times):
        place = folder / "damaged"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder / "start", place)
        where = files[rng.integers(len(files))]
        (place / where).write_bytes(damage((place / where).read_bytes(), rng))
        try:
            found = FactIndex.open(place).query(query, k=100)
        except FactlearnError:
            refused += 1
            continue
        assert found == expected, f"flip {number}, {where}: another answer"
        answered += 1
    return answered, refused
