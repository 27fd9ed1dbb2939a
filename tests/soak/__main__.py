"""`make soak`: kill, injure and damage small runs and indexes, and print how often; any loss is an AssertionError.

    python -m tests.soak                                all parts, about half an hour on one core
    python -m tests.soak index-kills run-kills          some of them

The numbers come from the environment: SOAK_KILLS and SOAK_FLIPS (1000 each), SOAK_STEP (1: every write call; 3: every
third one) and SOAK_SEED (0).
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.soak import faults, indexes, runs
from tests.soak.faults import Mode
from tests.soak.forks import Forks

BREAKING = (Mode.FAIL, Mode.FAIL_FROM, Mode.SHORT, Mode.KILL_BEFORE, Mode.KILL_AFTER)


def setting(name, default):
    """A number from the environment."""
    return int(os.environ.get(f"SOAK_{name}", default))


def index_kills(folder, forks):
    kills, hit, done = indexes.kill_at_random(folder, setting("KILLS", 1000), setting("SEED", 0))
    return f"{kills} SIGKILLs of writers, {hit} in a change, {done} changes committed: 0 lost, 0 damaged"


def index_flips(folder, forks):
    answered, refused = indexes.flip_bits(folder, setting("FLIPS", 1000), setting("SEED", 0))
    return f"{answered + refused} flips and cuts of an index: {refused} refused, {answered} in spare copies, 0 wrong"


def index_faults(folder, forks):
    return "changes of an index, " + in_turn(indexes.Indexes(forks, folder))


def run_kills(folder, forks):
    hit, finished = runs.Runs(forks, folder).kill_at_random(setting("KILLS", 1000), setting("SEED", 0))
    return f"{hit} SIGKILLs of training, over {finished} runs: all {finished} bit-identical"


def run_flips(folder, forks):
    flips, noticed = runs.Runs(forks, folder).flip_bits(setting("FLIPS", 1000) // 10, setting("SEED", 0))
    return f"{flips} flips and cuts of a checkpoint: {noticed} noticed, all runs bit-identical"


def run_faults(folder, forks):
    return "runs, " + in_turn(runs.Runs(forks, folder))


def in_turn(target):
    """Let the write calls fail one after the other."""
    if not faults.compiler():
        return "write calls did not fail in turn: there is no C compiler"
    done, outcomes = target.fail_in_turn(BREAKING, setting("STEP", 1))
    kinds = ", ".join(f"{count} {mode.name.lower()}" for mode, count in done.items())
    ended = ", ".join(f"{count} x exit {code}" for code, count in sorted(outcomes.items()))
    return f"write calls in turn: {kinds}; {ended}: 0 lost, 0 tracebacks"


PARTS = {
    part.__name__.replace("_", "-"): part
    for part in (index_kills, index_flips, index_faults, run_kills, run_flips, run_faults)
}


def main():
    """Do the parts that were named, or all."""
    for name in sys.argv[1:] or PARTS:
        with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
            folder = Path(temporary)
            preload = faults.build(folder) if faults.compiler() else None
            with Forks(folder, preload) as forks:
                started = time.monotonic()
                said = PARTS[name](folder / "work", forks)
                print(f"{name}: {said} ({time.monotonic() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
