"""The run directory of a classifier: as that of facts, with `predictions.safetensors` in each stage.

<task>.own      the class that the task's own head gives each test image of the task
<task>.task     the task whose head is the most confident, of those learned
<task>.class    the class which that head gives
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from factlearn.classification.config import ClassifyConfig
from factlearn.config import LearningConfig
from factlearn.data.classes import ClassSequence
from factlearn.errors import RunError
from factlearn.files import write_json
from factlearn.learning.runs import Run, RunDirectory


class ClassRun(RunDirectory):
    """The directory of a run that learns to classify."""

    schema: ClassVar[type[LearningConfig]] = ClassifyConfig
    command: ClassVar[str] = "factlearn classify train"
    config: ClassifyConfig

    def save_tasks(self, sequence: ClassSequence, values: int | None) -> None:
        """Record the tasks and their classes."""
        tasks = [{"name": task.name, "classes": list(task.classes)} for task in sequence.tasks]
        write_json(self.folder / "tasks.json", {"data": sequence.name, "values": values, "tasks": tasks})

    def tasks(self) -> list[tuple[str, list[str]]]:
        """Every task's name and classes, in the order of the heads."""
        return [(task["name"], task["classes"]) for task in self._tasks()["tasks"]]

    @property
    def values(self) -> int | None:
        """The length of a row, where the inputs are rows and not images."""
        return self._tasks()["values"]  # type: ignore[no-any-return]

    def _tasks(self) -> dict[str, Any]:
        path = self.folder / "tasks.json"
        try:
            raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return {"values": raw["values"], "tasks": raw["tasks"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} is missing or damaged ({error}); train the run again.") from error


def open_any(folder: Path) -> RunDirectory:
    """A run of facts or of a classifier, whichever the folder holds."""
    try:
        return Run.open(folder)
    except RunError:
        with suppress(RunError):
            return ClassRun.open(folder)
        raise
