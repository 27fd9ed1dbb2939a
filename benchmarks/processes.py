"""Two processes against one on the demo: importance, closed form, MAP, index; a process killed, resumed by 1, 2 and 3.

    python benchmarks/processes.py                      # the demo as it is
    python benchmarks/processes.py --set training.epochs=2 --set model.hidden=[64]

Differences are those of what the strategy remembers, relative to each tensor's length, the largest over all stages.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from factlearn.indexing.building import build_index
from factlearn.learning.runs import Run, load_run, load_tensors

COMMAND = [sys.executable, "-c", "from factlearn.cli import main; main()"]
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def train(folder: Path, *options: str) -> float:
    """Learn in a process, or several, of its own; the seconds it took."""
    started = time.monotonic()
    subprocess.run([*COMMAND, "train", CONFIG, "--out", str(folder), *CHANGES, *options], check=True, **QUIET)
    return time.monotonic() - started


def train_and_kill(folder: Path) -> str:
    """Learn in two processes and kill the second once a checkpoint of the second task is there; what the user reads."""
    command = [*COMMAND, "train", CONFIG, "--out", str(folder), *CHANGES, "--devices", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (folder / "config.yaml").is_file() or (load_run(folder).checkpoint_stage() or 0) < 2:
        assert process.poll() is None, "it ended before its second task"
        time.sleep(0.02)
    members = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(members[1]), signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode == 2
    return said.splitlines()[-1]


def difference(one: Run, other: Run, start: str = "") -> float:
    """The largest difference of what the strategies remember after any stage, relative to the tensor's length."""
    largest = 0.0
    for stage in range(1, one.finished_stages() + 1):
        first, second = (load_tensors(run.stage_folder(stage) / "strategy.safetensors") for run in (one, other))
        for name in (name for name in first if name.startswith(start) and first[name].is_floating_point()):
            a, b = (each[name].double().nan_to_num(0.0, 0.0, 0.0) for each in (first, second))
            largest = max(largest, float((a - b).norm() / a.norm().clamp_min(1e-12)))
    return largest


def agreement(one: Run, other: Run) -> str:
    """MAP of both, and whether their indexes answer with the same images."""
    maps = [run.result().final.map_all for run in (one, other)]
    with tempfile.TemporaryDirectory() as folder:
        ids = [list(build_index(run, "test", Path(folder) / str(n)).ids) for n, run in enumerate((one, other))]
    return f"MAP {maps[0]:.4f} and {maps[1]:.4f}, ids of the index {'identical' if ids[0] == ids[1] else 'DIFFER'}"


def main() -> None:
    """Print one line per comparison."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        seconds = [train(base / "one"), train(base / "two", "--devices", "2")]
        one, two = load_run(base / "one"), load_run(base / "two")
        print(f"MAS, 1 and 2 processes: {seconds[0]:.0f} s and {seconds[1]:.0f} s; omega differs by "
              f"{difference(one, two, 'omega.'):.1e}; {agreement(one, two)}")  # fmt: skip
        ridge = ("--set", "strategy={name: ridge}")
        train(base / "ridge one", *ridge)
        train(base / "ridge two", *ridge, "--devices", "2")
        one_sum, two_sum = load_run(base / "ridge one"), load_run(base / "ridge two")
        print(f"closed form: sums differ by {difference(one_sum, two_sum):.1e}; {agreement(one_sum, two_sum)}")
        print(train_and_kill(base / "killed"))
        for count in (1, 2, 3):
            resumed = shutil.copytree(base / "killed", base / f"resumed by {count}")
            train(resumed, "--resume", "--devices", str(count))
            run = load_run(resumed)
            print(f"resumed by {count}: omega differs by {difference(one, run, 'omega.'):.1e}; {agreement(one, run)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="configs/demo.yaml")
    parser.add_argument("--set", action="append", default=["training.checkpoint_epochs=1"], metavar="KEY=VALUE")
    given = parser.parse_args()
    CONFIG, CHANGES = given.config, [part for each in given.set for part in ("--set", each)]
    main()
