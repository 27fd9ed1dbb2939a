"""Copies of runs whose importance was measured anew; what facts and classifiers share."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import yaml

from factlearn.config import parse_as
from factlearn.errors import RunError
from factlearn.files import atomic_directory, atomic_write, write_json
from factlearn.learning.runs import RunDirectory, load_tensors, save_tensors
from factlearn.lifelong.consolidation import Consolidation
from factlearn.lifelong.registry import make_strategy

USAGE = "usage.safetensors"
AnyRun = TypeVar("AnyRun", bound=RunDirectory)


def adaptable_strategy(run: RunDirectory, out: Path) -> Consolidation:
    """The run's method as its last stage left it.

    Raises:
        RunError: if the method cannot measure importance on images, nothing was learned, or the place is taken.
    """
    finished = run.finished_stages()
    strategy = make_strategy(run.config.strategy)
    if not isinstance(strategy, Consolidation) or not hasattr(run.config.strategy, "importance"):
        raise RunError(
            f"{run.folder} was learned with {run.config.strategy.name}, which cannot measure importance on images; "
            "adapt a run of mas, l-mas, mas-vector or ewc."
        )
    if not finished:
        raise RunError(f"{run.folder} has learned nothing yet; train it first.")
    if out.exists():
        raise RunError(f"{out} exists already; choose another --out.")
    strategy.load_state(load_tensors(run.stage_folder(finished) / "strategy.safetensors"))
    return strategy


def copy_adapted(run: AnyRun, strategy: Consolidation, source: Sequence[str] | Path | None, out: Path) -> AnyRun:
    """A copy of the run that remembers what the strategy does now, and measures later tasks on the same source."""
    finished = run.finished_stages()
    raw = yaml.safe_load(run.config.to_yaml())
    if source is not None:
        raw["strategy"]["importance"] = str(source) if isinstance(source, Path) else list(source)
    config = parse_as(run.schema, raw, str(out))
    with atomic_directory(out) as folder:
        shutil.copytree(run.folder, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("checkpoint", USAGE))
        with atomic_write(folder / "config.yaml") as stream:
            stream.write(config.to_yaml())
        save_tensors(strategy.state(), type(run)(folder, config).stage_folder(finished) / "strategy.safetensors")
        about = {"run": str(run.folder), "stage": finished, "source": "use" if source is None else str(source)}
        write_json(folder / "run.json", {**run.description(), "adapted": about})
    return type(run).open(out)
