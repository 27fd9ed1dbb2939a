"""Runs as cells of a table: learned once, then used by every experiment that needs them.

A cell is a config and a folder. A finished cell is never learned again; an interrupted one goes on from its last
checkpoint; a cell that another process is learning is waited for.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from factlearn.config import RunConfig, parse_config
from factlearn.errors import FactlearnError
from factlearn.learning.results import RunResult, load_result
from factlearn.learning.runs import Run
from factlearn.progress import say


@dataclass(frozen=True)
class Cell:
    """One run: what to learn and where it is kept."""

    folder: Path
    config: RunConfig

    def finished(self) -> bool:
        """Whether the folder holds this config's run, learned to its end."""
        if not (self.folder / "tasks.json").is_file():
            return False
        run = Run.open(self.folder)
        stages = run.finished_stages()
        if not stages or run.config != self.config:
            return False
        return len(run.stage(stages)["tasks"]) == len(run.tasks().tasks)


def variant(config: RunConfig, **changes: Any) -> RunConfig:
    """The config with whole sections replaced, such as `strategy={"name": "si"}` or `seed=1`."""
    return parse_config({**yaml.safe_load(config.to_yaml()), **changes}, "of the experiment")


def learn_cells(cells: Sequence[Cell], jobs: int = 1) -> list[RunResult]:
    """Learn the cells that are not finished, `jobs` at a time, and evaluate all."""
    missing = [cell for cell in {cell.folder: cell for cell in cells}.values() if not cell.finished()]
    if missing:
        say(f"{len(cells) - len(missing)} of {len(cells)} runs are there already; learning {len(missing)}.")
    if jobs == 1 or len(missing) < 2:
        for number, cell in enumerate(missing, 1):
            say(f"Run {number} of {len(missing)}: {cell.folder}")
            _learn(cell)
    else:
        _learn_side_by_side(missing, jobs)
    return [load_result(Run.open(cell.folder)) for cell in cells]


def seconds_of(results: Sequence[RunResult]) -> float:
    """What learning these runs took, each counted once."""
    runs = {result.run.folder.resolve(): result.run for result in results}.values()
    return sum(float(run.stage(s).get("seconds", 0)) for run in runs for s in range(1, run.finished_stages() + 1))


def _learn(cell: Cell) -> None:
    from factlearn.learning.training import train_or_reuse

    with _alone(cell.folder):
        if not cell.finished():
            slim(train_or_reuse(cell.config, cell.folder))


def slim(run: Run) -> None:
    """Drop what no experiment reads of a finished run: the checkpoint, and weights of all but the last stage.

    The importance that the first stage left stays, and every stage's vectors and metrics. A cell takes half the disk.
    """
    shutil.rmtree(run.folder / "checkpoint", ignore_errors=True)
    for stage in range(1, run.finished_stages()):
        dropped = ("model.safetensors",) if stage == 1 else ("model.safetensors", "strategy.safetensors")
        for name in dropped:
            (run.stage_folder(stage) / name).unlink(missing_ok=True)


def _learn_side_by_side(cells: Sequence[Cell], jobs: int) -> None:
    """Each cell in a process of its own. Ctrl-C reaches the processes too; every run keeps its last checkpoint."""
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    threads = max(1, (os.cpu_count() or 1) // jobs)
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_start, initargs=(threads,))
    try:
        waiting = {pool.submit(_learn_in_process, str(cell.folder), cell.config.to_yaml()): cell for cell in cells}
        for number, done in enumerate(as_completed(waiting), 1):
            problem = done.result()
            if problem:
                raise FactlearnError(f"{waiting[done].folder}: {problem}")
            say(f"Run {number} of {len(cells)} is learned: {waiting[done].folder}")
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _start(threads: int) -> None:
    """A process that Ctrl-C ends without a word; the parent has the last one."""
    import signal

    import torch

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(threads)


def _learn_in_process(folder: str, config: str) -> str | None:
    """Learn a cell; a problem comes back as its sentence."""
    try:
        _learn(Cell(Path(folder), parse_config(yaml.safe_load(config), folder)))
    except FactlearnError as error:
        return str(error)
    return None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the cell's lock, so that two processes never learn one cell at the same time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = folder.with_name(f".{folder.name}.lock")
    with open(path, "w", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Another process is learning {folder}; waiting for it.")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
