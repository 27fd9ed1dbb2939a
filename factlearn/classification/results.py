"""What a classifier achieved after each stage: the numbers behind `factlearn classify evaluate`, tables and plots."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from factlearn.classification.data import open_sequence
from factlearn.classification.runs import ClassRun
from factlearn.classification.training import predict_tasks
from factlearn.data.classes import ClassSequence
from factlearn.errors import RunError
from factlearn.evaluation.classes import Predictions
from factlearn.evaluation.forgetting import Forgetting, forgetting
from factlearn.learning.runs import load_tensors
from factlearn.models.classifier import MultiHeadClassifier, build_classifier
from factlearn.progress import progress


@dataclass(frozen=True)
class ClassResult:
    """A run's predictions on the test images of the tasks learned, one list a finished stage."""

    run: ClassRun
    sequence: ClassSequence
    predictions: list[list[Predictions]]

    @property
    def tasks(self) -> list[str]:
        """The names of all tasks."""
        return [task.name for task in self.sequence.tasks]

    @cached_property
    def accuracy(self) -> list[list[float | None]]:
        """Accuracy of every task (columns) after each stage (rows), its own head chosen; None before it was learned."""
        return self._matrix(lambda number, each, labels: each.accuracy(labels))

    @cached_property
    def task_free(self) -> list[list[float | None]]:
        """The same where nobody says which task an image belongs to."""
        return self._matrix(lambda number, each, labels: each.task_free_accuracy(number, labels))

    def _matrix(self, score: Any) -> list[list[float | None]]:
        rows: list[list[float | None]] = []
        for stage in self.predictions:
            row = [
                score(n, each, t.test.labels)
                for n, (each, t) in enumerate(zip(stage, self.sequence.tasks, strict=False))
            ]
            rows.append(row + [None] * (len(self.tasks) - len(row)))
        return rows

    @property
    def average(self) -> float:
        """Mean accuracy of the tasks learned, at the end."""
        return _mean(self.accuracy[-1])

    @property
    def task_free_average(self) -> float:
        """Mean accuracy at the end where nobody says which task an image belongs to."""
        return _mean(self.task_free[-1])

    @property
    def learned(self) -> float | None:
        """Mean accuracy of each task just after it was learned; None where tasks were learned together."""
        return _mean([self.accuracy[i][i] for i in range(len(self.accuracy))]) if self.sequential else None

    @property
    def sequential(self) -> bool:
        """Whether tasks were learned one after the other."""
        return [len(stage) for stage in self.predictions] == list(range(1, len(self.predictions) + 1))

    @property
    def forgetting(self) -> Forgetting | None:
        """Forgetting and backward transfer; None where tasks were learned together."""
        return forgetting(self.accuracy) if self.sequential else None

    @property
    def forward_transfer(self) -> float | None:
        """How much better the nearest class mean of the features tells a task's classes just before the task is
        learned than at the beginning of the run, over all tasks but the first."""
        stages = [self.run.stage(number)["nearest_mean"] for number in range(1, len(self.predictions) + 1)]
        names = self.tasks[1 : len(stages)]
        if not self.sequential or not names:
            return None
        return float(np.mean([stages[place][name] - stages[0][name] for place, name in enumerate(names, 1)]))

    def class_accuracy(self, name: str, stage: int) -> float:
        """Accuracy on one class's test images after a stage (from 1), its task's head chosen."""
        task, label = self.sequence.find_class(name)
        if task >= len(self.predictions[stage - 1]):
            raise RunError(f"{self.sequence.tasks[task].name} was not learned yet after stage {stage}.")
        of_class = self.sequence.tasks[task].test.labels == label
        return float(np.mean(self.predictions[stage - 1][task].own[of_class] == label))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values: the end of the sequence first, then what came after each stage."""
        lost = self.forgetting
        return {
            "run": str(self.run.folder),
            "strategy": self.run.config.strategy.name,
            "average_accuracy": self.average,
            "task_free_accuracy": self.task_free_average,
            "learned_accuracy": self.learned,
            "forgetting": lost.to_json() if lost else None,
            "forward_transfer": self.forward_transfer,
            "tasks": self.tasks,
            "accuracy": self.accuracy,
            "task_free": self.task_free,
            "memory": [self.run.stage(n)["memory"] for n in range(1, len(self.predictions) + 1)],
            "seconds": [self.run.stage(n)["seconds"] for n in range(1, len(self.predictions) + 1)],
        }


def load_result(run: ClassRun, *, fresh: bool = False) -> ClassResult:
    """Read every finished stage's predictions, or make them anew from its network and the images if `fresh`."""
    finished = run.finished_stages()
    if not finished:
        raise RunError(f"{run.folder} has no finished stage yet; train it with --resume.")
    sequence = open_sequence(run.config.data, run.config.seed)
    run.check_data(sequence.fingerprint)
    return ClassResult(run, sequence, [_stage(run, sequence, number, fresh) for number in range(1, finished + 1)])


def load_model(run: ClassRun, stage: int | None = None) -> MultiHeadClassifier:
    """The network as a finished stage left it, by default the last."""
    finished = run.finished_stages()
    stage = finished if stage is None else stage
    if not 1 <= stage <= finished:
        raise RunError(f"{run.folder} has {finished} finished stages; there is no stage {stage}.")
    model = build_classifier(run.config.model, [len(c) for _, c in run.tasks()], run.values, pretrained=False)
    try:
        model.prefix.load_state_dict(load_tensors(run.folder / "frozen.safetensors"))
        model.suffix.load_state_dict(load_tensors(run.stage_folder(stage) / "model.safetensors"))
    except RuntimeError as error:
        raise RunError(f"The weights of {run.folder} do not fit its config ({str(error).splitlines()[0]}).") from error
    model.suffix.open = len(run.stage(stage)["tasks"])
    return model.eval()


def _stage(run: ClassRun, sequence: ClassSequence, stage: int, fresh: bool) -> list[Predictions]:
    names = run.stage(stage)["tasks"]
    if fresh:
        with progress(f"test images with stage {stage}", 1) as advance:
            predictions = predict_tasks(run.config, load_model(run, stage), sequence, len(names))
            advance(1)
        return predictions
    tensors = load_tensors(run.stage_folder(stage) / "predictions.safetensors")
    try:
        return [Predictions.of_tensors(tensors, name) for name in names]
    except KeyError as error:
        raise RunError(f"Stage {stage} of {run.folder} has no predictions for {error}; use --fresh.") from error


def _mean(values: Any) -> float:
    return float(np.mean([value for value in values if value is not None]))
