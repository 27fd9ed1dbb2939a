"""Runs as cells of a table, of facts or of classes: learned once, then used by every experiment that needs them.

A cell is a config and a folder. A finished cell is never learned again; an interrupted one resumes from its last
checkpoint; a cell that another process is learning is waited for. Where a loss diverges, that is the cell's outcome.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from factlearn.errors import FactlearnError
from factlearn.evaluation.results import RunResult
from factlearn.files import fingerprint, write_json
from factlearn.learning.config import RunConfig, parse_config
from factlearn.learning.results import load_result
from factlearn.learning.runs import Run
from factlearn.lifelong.registry import METHODS
from factlearn.progress import say

_DIVERGED = "diverged.json"


@dataclass(frozen=True)
class Cell:
    """One run: what to learn and where it is kept."""

    folder: Path
    config: RunConfig

    @classmethod
    def named(cls, group: Path, config: RunConfig) -> "Cell":
        """The cell of a config in a group's folder, under a name that the whole config gives."""
        key = fingerprint(yaml.safe_load(config.to_yaml()))[:10]
        return cls(group / f"{config.strategy.name}-{config.seed}-{key}", config)

    def finished(self) -> bool:
        """Whether the folder holds this config's run, learned to its end."""
        if self.diverged():
            return True
        if not (self.folder / "tasks.json").is_file():
            return False
        run = Run.open(self.folder)
        stages = run.finished_stages()
        if not stages or run.config != self.config:
            return False
        return len(run.stage(stages)["tasks"]) == len(run.task_names())

    def diverged(self) -> bool:
        """Whether learning this config ended in a loss or an importance that was not finite."""
        path = self.folder / _DIVERGED
        return path.is_file() and json.loads(path.read_text(encoding="utf-8"))["config"] == self.config.to_yaml()

    def result(self) -> RunResult | None:
        """What the finished run achieved; None where it diverged."""
        return None if self.diverged() else load_result(Run.open(self.folder))


def learn_cells(cells: Sequence[Cell], jobs: int = 1) -> list[RunResult | None]:
    """Learn the cells that are not finished, `jobs` at a time; the result of each, None where it diverged."""
    missing = [cell for cell in {cell.folder: cell for cell in cells}.values() if not cell.finished()]
    if missing:
        say(f"{len(cells) - len(missing)} of {len(cells)} runs are there already; learning {len(missing)}.")
    if jobs == 1 or len(missing) < 2:
        for number, cell in enumerate(missing, 1):
            say(f"Run {number} of {len(missing)}: {cell.folder}")
            _learn(cell)
    else:
        _learn_side_by_side(missing, jobs)
    return [cell.result() for cell in cells]


def _learn(cell: Cell) -> None:
    from factlearn.learning.training import train_or_reuse

    with _alone(cell.folder):
        if cell.finished():
            return
        (cell.folder / _DIVERGED).unlink(missing_ok=True)  # of another config
        try:
            slim(train_or_reuse(cell.config, cell.folder))
        except FactlearnError as error:
            if "finite" not in str(error) and "diverged" not in str(error):
                raise
            say(str(error))
            write_json(cell.folder / _DIVERGED, {"reason": str(error), "config": cell.config.to_yaml()})


def slim(run: Run) -> None:
    """Drop the weights and checkpoints of a finished run, which no experiment reads.

    What the network said of the test images, every metric, and the importance that the first stage left, stay.
    """
    shutil.rmtree(run.folder / "checkpoint", ignore_errors=True)
    (run.folder / "frozen.safetensors").unlink(missing_ok=True)
    keeps_importance = METHODS.find(run.config.strategy.name).importance
    for stage in range(1, run.finished_stages() + 1):
        (run.stage_folder(stage) / "model.safetensors").unlink(missing_ok=True)
        if stage > 1 or not keeps_importance:
            (run.stage_folder(stage) / "strategy.safetensors").unlink(missing_ok=True)


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
