"""How well a multi-head classifier tells classes: told the task, as in the paper, and not told it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Predictions:
    """What a network says of one task's test images.

    Attributes:
        own: the class that the task's own head gives, the paper's oracle.
        free_task: the task whose head is the most confident, of those learned.
        free_class: the class which that head gives.
    """

    own: Labels
    free_task: Labels
    free_class: Labels

    def accuracy(self, labels: Labels) -> float:
        """The share of images whose class the task's own head gives."""
        return float(np.mean(self.own == labels))

    def task_free_accuracy(self, task: int, labels: Labels) -> float:
        """The share of images of which both the task and the class are found without being told the task."""
        return float(np.mean((self.free_task == task) & (self.free_class == labels)))

    def class_accuracy(self, label: int, labels: Labels) -> float:
        """Accuracy on one class's images, those gone left out, the task's own head chosen."""
        return float(np.mean(self.own[(labels == label) & (self.own >= 0)] == label))


@dataclass(frozen=True)
class ClassEvaluation:
    """Accuracy on the tasks learned so far, by task."""

    rules: ClassVar[tuple[str, ...]] = ("told", "free")
    measure: ClassVar[str] = "accuracy"
    whole_title: ClassVar[str] = "Average of the tasks learned"

    accuracy: Mapping[str, float]
    task_free: Mapping[str, float]

    @property
    def average(self) -> float:
        """Mean accuracy of the tasks learned, each task's own head chosen."""
        return fmean(self.accuracy.values())

    @property
    def task_free_average(self) -> float:
        """Mean accuracy where nobody says which task an image belongs to."""
        return fmean(self.task_free.values())

    def task(self, name: str, rule: str) -> float | None:
        """Accuracy on one task; None if it was not learned yet."""
        return (self.accuracy if rule == "told" else self.task_free).get(name)

    def whole(self, rule: str) -> float:
        """The average over the tasks learned."""
        return self.average if rule == "told" else self.task_free_average

    def subsets(self) -> dict[str, float | None]:
        """There are none."""
        return {}

    def headline(self) -> dict[str, float]:
        """The figures that a run is judged by."""
        return {"average_accuracy": self.average, "task_free_accuracy": self.task_free_average}

    def sentence(self) -> str:
        """The headline in words."""
        return f"average accuracy {self.average:.3f} over {len(self.accuracy)} tasks"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values: the headline, then accuracy by task."""
        return {**self.headline(), "accuracy": dict(self.accuracy), "task_free": dict(self.task_free)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "ClassEvaluation":
        """What `to_json` gave."""
        return cls(raw["accuracy"], raw["task_free"])


def evaluate_predictions(
    tasks: Sequence[str], labels: Sequence[Labels], predictions: Sequence[Predictions]
) -> ClassEvaluation:
    """Accuracy of predictions on each task's test images, the tasks in the order of the heads."""
    rows = list(zip(tasks, labels, predictions, strict=True))
    return ClassEvaluation(
        {name: each.accuracy(right) for name, right, each in rows},
        {name: each.task_free_accuracy(place, right) for place, (name, right, each) in enumerate(rows)},
    )
