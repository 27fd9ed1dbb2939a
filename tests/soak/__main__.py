"""`make soak`: kill, injure and damage small runs and indexes, and print how often; any loss is an AssertionError.

The numbers come from the environment: SOAK_RUN_KILLS and SOAK_INDEX_KILLS (1000 each), SOAK_FLIPS (1000), SOAK_STEP (1:
every write call; 2: every other one), SOAK_SEED (0).
"""

import os
import tempfile
import time
from pathlib import Path

from tests.soak import faults, indexes, runs
from tests.soak.faults import Mode
from tests.soak.forks import Forks

BREAKING = (Mode.FAIL, Mode.FAIL_FROM, Mode.SHORT, Mode.KILL_BEFORE, Mode.KILL_AFTER)


def setting(name, default):
    return int(os.environ.get(f"SOAK_{name}", default))


def report(what, started):
    print(f"{what} ({time.monotonic() - started:.0f} s)", flush=True)


def in_turn(what, target, started):
    done, outcomes = target.fail_in_turn(BREAKING, setting("STEP", 1))
    kinds = ", ".join(f"{count} {mode.name.lower()}" for mode, count in done.items())
    ended = ", ".join(f"{count} x exit {code}" for code, count in sorted(outcomes.items()))
    report(f"{what}: every write call in turn, {kinds}; {ended}; 0 lost, 0 tracebacks", started)


def main():
    seed = setting("SEED", 0)
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        started = time.monotonic()
        kills, hit, done = indexes.kill_at_random(folder / "killed", setting("INDEX_KILLS", 1000), seed)
        report(
            f"index: {kills} SIGKILLs, {hit} of them in a change; {done} changes committed; 0 lost, 0 damaged", started
        )
        started = time.monotonic()
        answered, refused = indexes.flip_bits(folder / "flipped", setting("FLIPS", 1000), seed)
        report(f"index: {answered + refused} flips and cuts, {refused} refused, {answered} in spares; 0 wrong", started)
        if faults.compiler():
            preload = faults.build(folder)
        else:
            preload = None
            print("no C compiler: write calls are not made to fail in turn")
        with Forks(folder, preload) as forks:
            if preload:
                in_turn("index", indexes.Indexes(forks, folder / "indexes"), time.monotonic())
            small = runs.Runs(forks, folder / "runs")
            started = time.monotonic()
            hit, finished = small.kill_at_random(setting("RUN_KILLS", 1000), seed)
            report(f"runs: {hit} SIGKILLs over {finished} runs; all {finished} bit-identical", started)
            started = time.monotonic()
            flips, noticed = small.flip_bits(setting("FLIPS", 1000) // 10, seed)
            report(f"runs: {flips} flips and cuts of a checkpoint, {noticed} noticed; all bit-identical", started)
            if preload:
                in_turn("runs", small, time.monotonic())


if __name__ == "__main__":
    main()
