"""Small runs that are killed, or whose file operations fail; whatever happened, they resume to the same bits."""

import itertools
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import yaml

from factlearn.learning.runs import Run
from tests.learning.helpers import assert_same_run
from tests.retrieval.folder.damage import damage
from tests.soak import faults
from tests.soak.faults import Mode

CLASSES = {
    "learn": "classes",
    "device": "cpu",
    "data": {"source": "split-digits"},
    "model": {"backbone": "perceptron", "hidden": [16], "dropout": 0.2},
    "training": {"epochs": 3, "batch_size": 100, "learning_rate": 0.05, "momentum": 0.9},
    "strategy": {"name": "mas"},
}
TASKS = 2


# In processes of their own


def learn(folder, resume, nth=0, mode=Mode.COUNT, code=0):
    """`factlearn train`, in which something may go wrong."""
    import sys

    from factlearn.cli import main

    folder = Path(folder)
    faults_on = nth or mode
    if faults_on:
        faults.arm(folder.parent.resolve() / folder.name, nth, mode, code)
    sys.argv = ["factlearn", "train", str(folder.parent / "config.yaml"), "--out", str(folder), "--tasks", str(TASKS)]
    sys.argv += ["--resume"] if resume else []
    main()


def count(folder, counts):
    """`learn`, and how many calls there were that change files of the run."""
    faults.arm(Path(folder).resolve())
    try:
        learn(folder, False)
    finally:
        Path(counts).write_text(str(faults.counted()))


# The harness's own account


class Runs:
    """A place for runs, and the run that nothing happened to."""

    def __init__(self, forks, folder, config=None):
        self.forks, self.folder = forks, folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(yaml.safe_dump(config or CLASSES))
        for name in ("first", "whole"):  # the first is slower: it waits for the server
            started = time.monotonic()
            assert forks.run("tests.soak.runs:learn", folder=str(folder / name), resume=False) == 0, forks.said
            self.seconds = time.monotonic() - started
        self.whole = Run.open(folder / "whole")

    def fresh(self):
        """A folder for a run that was not begun."""
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        return self.folder / "run"

    def finish(self):
        """Resume the run to its end, as a user would; it must be the same."""
        run = self.folder / "run"
        code = self.forks.run("tests.soak.runs:learn", folder=str(run), resume=(run / "config.yaml").is_file())
        assert code == 0, self.forks.said
        assert_same_run(self.whole, Run.open(run))
        left = list(run.rglob(".*.tmp"))
        assert not left, f"left behind: {left}"

    def kill_at_random(self, times, seed):
        """Kill runs at random instants, each until it is finished; how many kills hit, and how many runs there were."""
        rng = np.random.default_rng(seed)
        hit = finished = 0
        while hit < times:
            run = self.fresh()
            while hit < times:
                resume = (run / "config.yaml").is_file()
                after = rng.uniform(0, 1.2 * self.seconds)
                signals = [(signal.SIGKILL, after)]
                code = self.forks.run("tests.soak.runs:learn", signals, folder=str(run), resume=resume)
                if code != -signal.SIGKILL:
                    assert code == 0, self.forks.said
                    break
                hit += 1
            self.finish()
            finished += 1
        return hit, finished

    def terminate(self, *seconds):
        """Ask a run to end by SIGTERM, once or more often; how it ended."""
        signals = [(signal.SIGTERM, after) for after in seconds]
        return self.forks.run("tests.soak.runs:learn", signals, folder=str(self.fresh()), resume=False)

    def flip_bits(self, times, seed):
        """Damage the checkpoint of a run that was killed; how often, and how often it was noticed."""
        rng = np.random.default_rng(seed)
        run = self.fresh()
        calls = self.count_calls()
        for nth in range(calls * 3 // 4, calls, 5):  # somewhere in the second stage, after a checkpoint
            what = {"nth": nth, "mode": int(Mode.KILL_BEFORE)}
            self.forks.run("tests.soak.runs:learn", folder=str(self.fresh()), resume=False, **what)
            if Run.open(run).checkpoint_stage() == TASKS:
                break
        shutil.rmtree(self.folder / "killed", ignore_errors=True)
        shutil.copytree(run, self.folder / "killed")
        noticed = 0
        for _ in range(times):
            shutil.copytree(self.folder / "killed", self.fresh())
            files = sorted((run / "checkpoint").iterdir())
            file = files[rng.integers(len(files))]
            file.write_bytes(damage(file.read_bytes(), rng))
            self.finish()
            noticed += "cannot be used" in self.forks.said
        return times, noticed

    def count_calls(self):
        """How many calls of a run change its files."""
        counts = self.folder / "counts"
        assert self.forks.run("tests.soak.runs:count", folder=str(self.fresh()), counts=str(counts)) == 0, (
            self.forks.said
        )
        return int(counts.read_text())

    def fail_in_turn(self, modes, step=1):
        """Let each call in turn go wrong in each way; how many of each kind, and of each exit code."""
        calls = self.count_calls()
        done = dict.fromkeys(modes, 0)
        outcomes = {}
        errors = itertools.cycle(faults.ERRORS)
        for mode in modes:
            for nth in range(1, calls + 1, step):
                what = {"nth": nth, "mode": int(mode), "code": next(errors)}
                code = self.forks.run("tests.soak.runs:learn", folder=str(self.fresh()), resume=False, **what)
                self._check(code, mode, what)
                self.finish()
                done[mode] += 1
                outcomes[code] = outcomes.get(code, 0) + 1
        return done, outcomes

    def _check(self, code, mode, what):
        said = self.forks.said
        assert "Traceback" not in said, f"{what}: {said}"
        allowed = {Mode.FAIL: (0, 2), Mode.FAIL_FROM: (2,), Mode.SHORT: (0,)}.get(mode, (-signal.SIGKILL, 0))
        assert code in allowed, f"{what} ended with {code}: {said}"
        if code == 2:
            assert sum(line.startswith("factlearn: ") for line in said.splitlines()) == 1, said
