"""One learned sequence as a small JSON file, so that a sweep can be stopped and called again."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from factlearn.classification.config import ClassifyConfig
from factlearn.classification.results import ClassResult, load_result
from factlearn.classification.training import train_or_reuse
from factlearn.errors import ModelError, RunError
from factlearn.files import fingerprint, write_json
from factlearn.progress import say


@dataclass(frozen=True)
class Cell:
    """One method on one seed's sequence; shares are between 0 and 1.

    Attributes:
        method, strength: the strategy and its lambda, if it has one.
        tasks: the names of the tasks, in their order.
        accuracy: of each task (column) after each stage (row); None before it was learned.
        average, task_free, learned: at the end; at the end without being told the task; just after learning.
        forgetting, backward, forward: None where tasks were learned together.
        classes: for chosen classes, accuracy just after their task was learned, and at the end.
        memory: bytes of network, while learning and between tasks, after each stage.
        seconds: of the whole sequence.
        diverged: whether the method's loss was not finite; all scores are then 0.
    """

    method: str
    strength: float | None
    tasks: list[str]
    accuracy: list[list[float | None]]
    average: float
    task_free: float
    learned: float | None
    forgetting: float | None
    backward: float | None
    forward: float | None
    classes: dict[str, list[float]]
    memory: list[dict[str, int]]
    seconds: float
    diverged: bool = False


class Sweep:
    """Cells kept in a folder, each under a name that its whole config gives."""

    def __init__(self, folder: Path, keep_runs: bool) -> None:
        self.folder = folder
        self.keep_runs = keep_runs

    def cell(self, config: ClassifyConfig, classes: Sequence[str] = ()) -> Cell:
        """The result of a config: read if it was learned before, learned otherwise."""
        raw = yaml.safe_load(config.to_yaml())
        key = f"{config.strategy.name}-{config.seed}-{fingerprint(raw, list(classes))[:10]}"
        file = self.folder / f"{key}.json"
        if file.is_file():
            return Cell(**json.loads(file.read_text(encoding="utf-8"))["cell"])
        say(f"{self.folder.name}: {config.strategy.name}, seed {config.seed}, {raw['strategy']}")
        quick = config.model_copy(update={"training": replace_checkpoints(config)})
        folder = self.folder / "runs" / key
        try:
            cell = cell_of(load_result(train_or_reuse(quick, folder)), classes)
        except (ModelError, RunError) as error:
            if "finite" not in str(error) and "diverged" not in str(error):
                raise
            say(str(error))
            cell = _diverged(config)
        write_json(file, {"config": raw, "cell": asdict(cell)})
        if not self.keep_runs:
            shutil.rmtree(folder, ignore_errors=True)
        return cell


def replace_checkpoints(config: ClassifyConfig) -> Any:
    """The same training without checkpoints in the middle of a stage, which a short sequence does not need."""
    return config.training.model_copy(update={"checkpoint_epochs": config.training.epochs})


def cell_of(result: ClassResult, classes: Sequence[str] = ()) -> Cell:
    """The numbers of a finished run."""
    lost = result.forgetting
    last = len(result.predictions)
    kept = {}
    for name in classes:
        first = result.sequence.find_class(name)[0] + 1
        kept[name] = [result.class_accuracy(name, min(first, last)), result.class_accuracy(name, last)]
    return Cell(
        method=result.run.config.strategy.name,
        strength=getattr(result.run.config.strategy, "lambda_", None),
        tasks=result.tasks,
        accuracy=result.accuracy,
        average=result.average,
        task_free=result.task_free_average,
        learned=result.learned,
        forgetting=lost.average if lost else None,
        backward=lost.backward_transfer if lost else None,
        forward=result.forward_transfer,
        classes=kept,
        memory=[result.run.stage(number)["memory"] for number in range(1, last + 1)],
        seconds=sum(result.run.stage(number)["seconds"] for number in range(1, last + 1)),
    )


def _diverged(config: ClassifyConfig) -> Cell:
    strength = getattr(config.strategy, "lambda_", None)
    nothing = Cell(config.strategy.name, strength, [], [], 0.0, 0.0, None, None, None, None, {}, [], 0.0)
    return replace(nothing, diverged=True)
