"""Learning classes: each task has classes, and a head, of its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from factlearn.data.classes import ClassSequence, Examples, Pictures, Rows
from factlearn.data.registry import open_classes
from factlearn.errors import ConfigError, RunError
from factlearn.evaluation.classes import ClassEvaluation, Predictions
from factlearn.evaluation.heads import HeadCalibration
from factlearn.files import write_json
from factlearn.learning.collection import RunImages
from factlearn.learning.config import ClassesConfig
from factlearn.learning.problem import Judgement, Preparation, Problem, StageData, augmentation_views
from factlearn.learning.records import about_data, class_photo_id, rows_of, write_record
from factlearn.learning.runs import Run
from factlearn.learning.seeds import seed_initial_weights
from factlearn.lifelong.memory import bytes_of
from factlearn.lifelong.strategy import Learner
from factlearn.models.classifier import MultiHeadClassifier, build_classifier
from factlearn.models.inference import nearest_mean_accuracy, predict_task
from factlearn.models.inputs import Inputs, RowInputs, in_order, labelled, open_inputs, shared_in_order, shuffled
from factlearn.models.network import TwoPartModel
from factlearn.models.preprocess import PLAIN, View

_PARTS = ("own", "task", "class")
GONE = -1
"""What stands for the prediction of a test image that no longer exists."""


@dataclass(frozen=True)
class ClassStage:
    """The training images of a stage's tasks.

    Attributes:
        tasks: the number of each image's task.
        labels: the number of each image's class in its task.
        numbers: the number of each image's class among those of all tasks.
        together: whether the heads of the stage's tasks compete with each other.
    """

    inputs: Inputs
    tasks: Tensor
    labels: Tensor
    views: int
    numbers: Tensor
    together: bool = False

    def epoch(self, seed: int, batch_size: int) -> Iterator[tuple[Tensor, ...]]:
        """Every image once, in random order, each under a random view."""
        device = self.labels.device
        for batch, rows in shuffled(self.inputs, self.views, seed, batch_size):
            place = rows.to(device)
            yield batch.to(device), self.tasks[place], self.labels[place]

    def loss(self, outputs: Any, *targets: Tensor) -> Tensor:
        """Cross-entropy of each image's own head, averaged over images."""
        tasks, labels = targets
        if isinstance(outputs, Tensor):
            return F.cross_entropy(outputs, labels)
        if self.together:
            return self._loss_together(outputs, tasks, labels)
        present = tasks.unique().tolist()
        if len(present) == 1:
            return F.cross_entropy(outputs[present[0]], labels)
        sums = [
            F.cross_entropy(outputs[task][tasks == task], labels[tasks == task], reduction="sum") for task in present
        ]
        return torch.stack(sums).sum() / len(labels)

    def _loss_together(self, outputs: Sequence[Tensor], tasks: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy over all classes of the stage."""
        stage = self.tasks.unique().tolist()
        widths = torch.tensor([0, *(outputs[task].shape[1] for task in stage)], device=labels.device).cumsum(0)
        starts = widths[torch.searchsorted(torch.tensor(stage, device=tasks.device), tasks)]
        return F.cross_entropy(torch.cat([outputs[task] for task in stage], dim=1), labels + starts)

    def labelled_batches(self, batch_size: int, read: Any = in_order) -> Iterator[Any]:
        """Every image once, in its order, with its class and the class's number among all."""
        return labelled(read, self.inputs, batch_size, self.labels, self.numbers)


@dataclass
class _HeldOut:
    """What the heads say of test images, task after task."""

    ids: list[str] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    scores: list[list[NDArray[np.float32]]] = field(default_factory=list)

    def add(self, name: str, task: int, test: Examples, scores: list[NDArray[np.float32]]) -> None:
        """The images of one task."""
        if isinstance(test, Pictures):
            self.ids += [class_photo_id(name, path, test.root) for path in test.paths]
        else:
            self.ids += [f"{name}/{row}" for row in range(len(test))]
        self.tasks += [task] * len(test)
        self.labels += test.labels.tolist()
        self.scores.append(scores)

    def calibration(self, run: Run | None) -> dict[str, Any] | None:
        """How the heads compare; those of which no photo is left keep the numbers of the last stage of the run."""
        finished = run.finished_stages() if run else 0
        before = class_calibration(run, finished) if run and finished else None
        scores = [np.concatenate(head) for head in zip(*self.scores, strict=True)]
        found = HeadCalibration.fit(scores, np.array(self.tasks), np.array(self.labels), self.ids, before)
        return None if found is None else found.to_json()


class ClassProblem(Problem):
    """Classes in tasks, told apart by a `MultiHeadClassifier`."""

    evaluation: ClassVar[Any] = ClassEvaluation
    config: ClassesConfig
    model: MultiHeadClassifier

    def __init__(
        self,
        config: ClassesConfig,
        model: MultiHeadClassifier,
        tasks: list[str],
    ) -> None:
        self.config, self.model, self.tasks = config, model, tasks

    @classmethod
    def plan(cls, config: Any) -> Self:
        """A new problem from its config."""
        sequence = open_classes(config.data, config.seed)
        if sequence.row_length is not None and config.model.network.blocks:
            raise ConfigError(
                f"model.backbone: {config.model.network.title} takes images, but {sequence.name} are rows of "
                "numbers; use perceptron."
            )
        seed_initial_weights(config.seed)
        model = build_classifier(config.model, [len(task.classes) for task in sequence.tasks], sequence.row_length)
        problem = cls(config, model, [task.name for task in sequence.tasks])
        problem.images = RunImages(sequence)
        for task in range(len(problem.tasks)):
            problem.importance_head(task)
        return problem

    @classmethod
    def of_run(cls, run: Run, model: TwoPartModel[Any]) -> Self:
        """The problem of a run directory."""
        assert isinstance(run.config, ClassesConfig)
        assert isinstance(model, MultiHeadClassifier)
        problem = cls(run.config, model, run.task_names())
        problem._run = run
        return problem

    @staticmethod
    def network(run: Run, stage: int | None = None, *, pretrained: bool = False) -> MultiHeadClassifier:
        """The network of a run with the heads that it had at a stage; those of the tasks learned by then answer."""
        assert isinstance(run.config, ClassesConfig)
        counts = [len(classes) for _, classes in class_names(run)][: run.tasks_at(stage)]
        model = build_classifier(run.config.model, counts, run.tasks_json().get("values"), pretrained=pretrained)
        if stage is not None:
            model.suffix.open = len(run.stage(stage)["tasks"])
        return model

    @property
    def sequence(self) -> ClassSequence:
        """The tasks with their images."""
        whole = self.images.whole
        assert isinstance(whole, ClassSequence)
        return whole

    @property
    def fingerprint(self) -> str:
        """A name for exactly these tasks, classes and images."""
        return self.sequence.fingerprint

    def save(self, run: Run) -> dict[str, Any]:
        """Write the tasks and the record of all photos."""
        self.save_tasks(run)
        if self.sequence.row_length is None:
            write_record(run.folder / "data", rows_of(self.sequence), about_data(self.sequence))
        return {"data": self.sequence.name}

    def save_tasks(self, run: Run) -> None:
        """Write the tasks and their classes, in the order of the heads."""
        tasks = [{"name": task.name, "classes": list(task.classes)} for task in self.sequence.tasks]
        about = {"data": self.sequence.name, "values": self.sequence.row_length, "tasks": tasks}
        write_json(run.folder / "tasks.json", about)

    def training_photos(self, task: int) -> Sequence[Path]:
        """The photos that a task is learned from."""
        return getattr(self.sequence.tasks[task].train, "paths", ())

    def _remaining(self, examples: Examples) -> Examples:
        """The examples whose photos are still there."""
        if isinstance(examples, Rows):
            return examples
        kept = self._rows_remaining(examples)
        return replace(examples, paths=tuple(examples.paths[row] for row in kept), labels=examples.labels[kept])

    def _rows_remaining(self, examples: Examples) -> list[int]:
        paths = () if isinstance(examples, Rows) else examples.paths
        gone = self.images.gone.intersection(paths)
        return [row for row in range(len(examples)) if not gone or paths[row] not in gone]

    def _inputs(self, examples: Sequence[Examples], views: Sequence[View] = (PLAIN,)) -> Inputs:
        """What the learning part is fed for these examples, one group after the other."""
        if self.sequence.row_length is not None:
            return RowInputs(np.concatenate([each.values for each in examples if isinstance(each, Rows)]))
        paths = [path for each in examples if isinstance(each, Pictures) for path in each.paths]
        return open_inputs(self.model, paths, views=views)

    def stage_data(self, stage: Sequence[int]) -> ClassStage:
        """The training images of a stage, under every view that augmentation draws from."""
        views = augmentation_views(self.config.training) if self.sequence.row_length is None else [PLAIN]
        return self._labelled([(task, self.sequence.tasks[task].train) for task in stage], views)

    def _labelled(self, examples: Sequence[tuple[int, Examples]], views: Sequence[View]) -> ClassStage:
        """Examples of some tasks, under some views."""
        tasks = np.concatenate([np.full(len(each), task) for task, each in examples])
        labels = np.concatenate([each.labels for _, each in examples])
        device = self.model.device
        return ClassStage(
            self._inputs([each for _, each in examples], views),
            torch.from_numpy(tasks).to(device),
            torch.from_numpy(labels).to(device),
            len(views),
            torch.from_numpy(self._numbers(tasks, labels)),
        )

    def _numbers(self, tasks: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of classes among those of all tasks; tasks that share a head share its classes too."""
        starts = np.cumsum([0, *(len(task.classes) for task in self.sequence.tasks)])
        numbers: NDArray[np.int64] = labels if self.model.suffix.one_head else labels + starts[tasks]
        return numbers

    def labels(self) -> list[tuple[int, str]]:
        """Every class with its task; one list where all tasks share a head."""
        tasks = self.sequence.tasks[:1] if self.model.suffix.one_head else self.sequence.tasks
        return [(number, name) for number, task in enumerate(tasks) for name in task.classes]

    def numbers_of(self, names: Sequence[str]) -> list[int]:
        """The numbers of classes."""
        starts = np.cumsum([0, *(len(task.classes) for task in self.sequence.tasks)]).tolist()
        return [starts[task] + label for task, label in map(self.sequence.find_class, names)]

    def labelled_photos(self, task: int) -> list[tuple[Path, int]]:
        """The training photos of a task, each with the number of its class."""
        train = self.sequence.tasks[task].train
        numbers = self._numbers(np.full(len(train), task), train.labels).tolist()
        return list(zip(train.paths, numbers, strict=True)) if isinstance(train, Pictures) else []

    def labelled_images(self, task: int, rows: Sequence[int]) -> ClassStage:
        """Some of the training images of a task."""
        train = self.sequence.tasks[task].train
        assert isinstance(train, Pictures)
        chosen = replace(train, paths=tuple(train.paths[row] for row in rows), labels=train.labels[list(rows)])
        return self._labelled([(task, chosen)], (PLAIN,))

    def solving_learner(self, learner: Learner, learned: int) -> Learner:
        """Open the heads of the first tasks."""
        self.model.suffix.open = learned
        return super().solving_learner(learner, learned)

    def prepare(self, number: int, stage: Sequence[int], data: StageData) -> Preparation:
        """Open the stage's heads, after measuring what the features are worth to its tasks before learning."""
        suffix = self.model.suffix
        suffix.fit(shared_in_order(data.inputs, self.config.evaluation.batch_size))
        before = self._nearest_means(range(len(self.tasks)) if number == 1 else stage)
        head = suffix.learn_heads(stage)
        measured = suffix.of_task(self.importance_head(stage[-1]))
        return Preparation({"output": "scores", "head": head, "measured": measured}, {"nearest_mean": before})

    def _nearest_means(self, tasks: Sequence[int]) -> dict[str, float]:
        """The nearest-mean accuracy of tasks that are not learned yet, see `nearest_mean_accuracy`."""
        found = {}
        for task in (self.sequence.tasks[number] for number in tasks):
            train, test = (self._remaining(side) for side in (task.train, task.test))
            if not len(train) or not len(test):
                continue
            size = self.config.evaluation.batch_size
            inputs = [self._inputs([side]) for side in (train, test)]
            found[task.name] = nearest_mean_accuracy(
                self.model.suffix, inputs[0], train.labels, inputs[1], test.labels, size
            )
        return found

    def importance_head(self, task: int) -> int:
        """The head whose output a task's importance is about: its own, or that of the classes to be kept."""
        source = self.config.strategy.importance_of(self.tasks[task])
        if not isinstance(source, tuple):
            return task
        head = self._head_of(source)
        if head > task:
            raise ConfigError(
                f"strategy.importance: {source[0]!r} belongs to {self.tasks[head]}, which is learned after "
                f"{self.tasks[task]}; name it for later tasks only."
            )
        return head

    def _head_of(self, names: Sequence[str]) -> int:
        heads = {self.sequence.find_class(name)[0] for name in names}
        if len(heads) > 1:
            several = ", ".join(self.tasks[head] for head in sorted(heads))
            raise ConfigError(f"The classes to protect belong to several tasks ({several}); name those of one task.")
        return heads.pop()

    def importance_learner(self, learner: Learner, names: Sequence[str] | None) -> Learner:
        """Look at named classes through their own task's head, at other images through the last one learned."""
        suffix = self.model.suffix
        head = suffix.open - 1
        if names is not None:
            head = self._head_of(names)
            if head >= suffix.open:
                raise RunError(f"{self.tasks[head]} has not been learned yet; learn it first.")
        suffix.heads.requires_grad_(False)
        learner.output, learner.measured = "scores", suffix.of_task(head)
        return learner

    def learned_names(self, names: Sequence[str], learned: Sequence[int]) -> list[str]:
        """The classes of these names, of those that these tasks taught."""
        return [name for name in names if self.sequence.find_class(name)[0] in learned]

    def test_inputs(self, stage: Sequence[int]) -> Inputs:
        """The test images of a stage's tasks, those that remain."""
        return self._inputs([self._remaining(self.sequence.tasks[task].test) for task in stage])

    def named_inputs(self, names: Sequence[str]) -> Inputs:
        """The training images of classes, those that remain."""
        places = [self.sequence.find_class(name) for name in names]
        return self._inputs(
            [self._remaining(self.sequence.tasks[task].train.of_class(label)) for task, label in places]
        )

    def judge(self, learned: Sequence[int]) -> Judgement:
        """Classify the test images of the tasks learned, those that remain.

        Raises:
            RunError: if none remains.
        """
        size = self.config.evaluation.batch_size
        tasks = self.sequence.tasks[: len(learned)]
        outputs, accuracy, task_free = {}, {}, {}
        photos = _HeldOut()
        for number, task in enumerate(tasks):
            test = self._remaining(task.test)
            columns = [np.full(len(task.test), GONE, np.int64) for _ in _PARTS]
            if len(test):
                found, scores = predict_task(self.model.suffix, self._inputs([test]), number, len(tasks), size)
                photos.add(task.name, number, test, scores)
                said = Predictions(*found)
                accuracy[task.name] = said.accuracy(test.labels)
                task_free[task.name] = said.task_free_accuracy(number, test.labels)
                for column, values in zip(columns, found, strict=True):
                    column[self._rows_remaining(task.test)] = values
            for part, column in zip(_PARTS, columns, strict=True):
                outputs[f"{task.name}.{part}"] = torch.from_numpy(column.astype(np.int32))
        if not accuracy:
            raise RunError(f"None of the test photos of {self.sequence.name} exists any more; restore some.")
        calibration = None if self.model.suffix.one_head else photos.calibration(self._run)
        return Judgement(outputs, ClassEvaluation(accuracy, task_free), calibration)

    def model_bytes(self, learned: Sequence[int]) -> int:
        """The network with the heads of the tasks learned so far."""
        unlearned = {id(p) for head in list(self.model.suffix.heads)[len(learned) :] for p in head.parameters()}
        return bytes_of(p for p in self.model.parameters() if id(p) not in unlearned)


def class_names(run: Run) -> list[tuple[str, list[str]]]:
    """Every task's name and classes, in the order of the heads."""
    try:
        return [(task["name"], task["classes"]) for task in run.tasks_json()["tasks"]]
    except (KeyError, TypeError) as error:
        raise RunError(f"{Path(run.folder, 'tasks.json')} is damaged ({error}); train the run again.") from error


def class_calibration(run: Run, stage: int) -> HeadCalibration | None:
    """The calibration that a stage of a run of classes left; None if there were too few held-out photos."""
    try:
        found = run.stage(stage).get("calibration")
        return None if found is None else HeadCalibration.from_json(found)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"The calibration of stage {stage} of {run.folder} is damaged ({error}).") from error


def test_predictions(run: Run, stage: int) -> list[Predictions]:
    """What a stage's network said of the test images of each task learned by then; `GONE` of those it never saw."""
    tensors = run.outputs(stage)
    try:
        return [
            Predictions(*(tensors[f"{name}.{part}"].numpy().astype(np.int64) for part in _PARTS))
            for name in run.stage(stage)["tasks"]
        ]
    except KeyError as error:
        raise RunError(f"Stage {stage} of {run.folder} has no predictions for {error}; train it again.") from error
