"""Sizes of run directories, and deleting what is only needed to return to an earlier stage."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factlearn.errors import RunError
from factlearn.learning.runs import PRUNABLE, Run


@dataclass(frozen=True)
class RunSize:
    """The size of a run directory.

    Attributes:
        size: bytes on disk.
        prunable: how many of them `prune` would free.
    """

    run: Run
    size: int
    prunable: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        config = self.run.config
        return {
            "run": str(self.run.folder),
            "learn": config.learn,
            "strategy": config.strategy.name,
            "learned": len(self.run.stage(stage)["tasks"]) if (stage := self.run.finished_stages()) else 0,
            "tasks": len(self.run.task_names()),
            "bytes": self.size,
            "prunable_bytes": self.prunable,
        }


def find_runs(folder: Path) -> list[RunSize]:
    """Every run in a folder and below, sorted by path.

    Raises:
        RunError: if there is none.
    """
    found = sorted(path.parent for path in folder.rglob("config.yaml") if (path.parent / "run.json").is_file())
    if not found:
        raise RunError(f"{folder} holds no runs; train one with `factlearn train`.")
    return [size_of(Run.open(path)) for path in found]


def size_of(run: Run) -> RunSize:
    """The size of a run, and what keeping only its last stage would free."""
    return RunSize(run, _bytes(run.folder), sum(map(_bytes, _superfluous(run, 1))))


def prune(run: Run, keep: int = 1) -> int:
    """Drop the networks and the methods' memories of all but the last stages, and checkpoints no longer needed.

    Metrics, evaluations and outputs of all stages stay. A checkpoint in the middle of the next stage stays too.

    Args:
        keep: the number of stages whose networks are kept.

    Returns:
        The bytes freed.

    Raises:
        RunError: if no stage would be kept.
    """
    check_keep(keep)
    freed = 0
    for path in _superfluous(run, keep):
        freed += _bytes(path)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return freed


def check_keep(keep: int) -> None:
    """Refuse to keep no stage.

    Raises:
        RunError: if none would be kept.
    """
    if keep < 1:
        raise RunError("At least the last stage must be kept: it is what the run knows.")


def _superfluous(run: Run, keep: int) -> list[Path]:
    finished = run.finished_stages()
    stages = [run.stage_folder(stage) for stage in range(1, finished - keep + 1)]
    paths = [stage / f"{name}.safetensors" for stage in stages for name in PRUNABLE]
    if run.checkpoint_stage() not in (None, finished + 1):
        paths.append(run.folder / "checkpoint")
    return [path for path in paths if path.exists()]


def _bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
