"""A problem: the one thing in which runs of facts and runs of classes differ.

A problem holds the network and knows its data: which images a stage learns from, with which targets and which loss;
which images importance is measured on; how the network is judged after a stage. The loop, run directories, results,
adaptation and every command know only this interface.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from torch import Tensor

from factlearn.errors import RunError
from factlearn.images import find_images
from factlearn.learning.collection import RunImages
from factlearn.learning.config import RunConfig, TrainingConfig
from factlearn.learning.runs import Run, load_tensors
from factlearn.learning.seeds import seed_initial_weights
from factlearn.lifelong.strategy import Learner
from factlearn.models.inputs import Inputs, Reiterable, in_order, open_inputs, shared_in_order
from factlearn.models.network import TwoPartModel
from factlearn.models.preprocess import View
from factlearn.progress import say


class StageData(Protocol):
    """The images of a stage with what is to be learned of them."""

    @property
    def inputs(self) -> Inputs: ...

    def epoch(self, seed: int, batch_size: int) -> Iterator[tuple[Tensor, ...]]:
        """Every image once, in random order: batches of inputs and their targets."""

    def loss(self, outputs: Any, *targets: Tensor) -> Tensor:
        """How far the outputs of a batch are from its targets."""

    def labelled_batches(self, batch_size: int, read: Any = in_order) -> Iterator[Any]:
        """Every image once, in its order, with its target and the number of its fact or class among all of the run.

        Read by `in_order` or, where processes share the batches, by `shared_in_order`.
        """


@dataclass(frozen=True)
class Judgement:
    """The network's outputs on the test images after a stage, and their evaluation.

    Attributes:
        outputs: vectors or predictions, to be kept.
        evaluation: a `FactEvaluation` or a `ClassEvaluation`.
        calibration: numbers that turn what the network says into probabilities; None if there are too few images.
    """

    outputs: dict[str, Tensor]
    evaluation: Any
    calibration: dict[str, Any] | None = None


@dataclass(frozen=True)
class Preparation:
    """What a stage starts with.

    Attributes:
        learner: what the learner is told of the network besides the defaults, such as the heads.
        record: what stage.json keeps of it.
    """

    learner: dict[str, Any] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)


class Problem(ABC):
    """Base of `FactProblem` and `ClassProblem`.

    Attributes:
        config: of the run.
        model: the network, in whatever state it is.
        images: of all tasks.
        tasks: the names of the tasks, in the order in which they are learned. A stage is a list of their positions.
    """

    evaluation: ClassVar[Any]
    config: RunConfig
    model: TwoPartModel[Any]
    tasks: list[str]
    _run: Run | None = None

    @cached_property
    def images(self) -> RunImages:
        """The images of all tasks, opened when they are first needed."""
        assert self._run is not None
        return self._run.images

    @classmethod
    @abstractmethod
    def plan(cls, config: RunConfig) -> Self:
        """A new problem: data opened and checked, tasks made, the network built with its pretrained weights."""

    @classmethod
    def resumed(cls, run: Run) -> Self:
        """The problem of a run that is to learn more: its network has every task's head, with initial weights.

        Learned weights are loaded where learning continues. Initial weights follow from the seed and the place of their
        task alone, so that a task added later starts as if it had been planned.
        """
        seed_initial_weights(run.config.seed)
        model = cls.network(run, pretrained=not run.finished_stages())
        model.prefix.load_state_dict(load_tensors(run.folder / "frozen.safetensors"))
        return cls.of_run(run, model)

    @classmethod
    @abstractmethod
    def of_run(cls, run: Run, model: TwoPartModel[Any]) -> Self:
        """The problem of a run directory; its data is opened when it is first needed."""

    @staticmethod
    @abstractmethod
    def network(run: Run, stage: int | None = None, *, pretrained: bool = False) -> TwoPartModel[Any]:
        """The network that a run had after a stage, or has for all its tasks; learned weights are not yet loaded."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A name for exactly this data."""

    @abstractmethod
    def save(self, run: Run) -> dict[str, Any]:
        """Write what belongs to the run directory; what run.json should say of the data is returned."""

    @abstractmethod
    def save_tasks(self, run: Run) -> None:
        """Write the tasks in their order."""

    @abstractmethod
    def training_photos(self, task: int) -> Sequence[Path]:
        """The photos that a task is learned from; none where it learns from rows of numbers."""

    def stage_photos(self, stage: Sequence[int]) -> list[Path]:
        """The photo of each row that a stage learns from; none where it learns from rows of numbers."""
        return [path for task in stage for path, _ in self.labelled_photos(task)]

    def check_photos(self, stages: Sequence[Sequence[int]]) -> None:
        """Refuse to start on stages of which training photos are gone or edited."""
        for task in (task for stage in stages for task in stage):
            self.images.check_unchanged(self.tasks[task], self.training_photos(task))

    def training(self, stage: Sequence[int]) -> TrainingConfig:
        """How a stage is trained: as the config says, but an added task may have its own number of epochs."""
        epochs = [count for task in stage if (count := self.images.epochs.get(self.tasks[task]))]
        return self.config.training.model_copy(update={"epochs": epochs[0]} if epochs else {})

    def load_learned(self, state: dict[str, Tensor]) -> None:
        """Take the weights that a stage left; heads of tasks added since keep their initial ones."""
        own = self.model.suffix.state_dict()
        heads = {name: value for name, value in own.items() if name.startswith("heads.") and name not in state}
        self.model.suffix.load_state_dict({**heads, **state})

    @abstractmethod
    def stage_data(self, stage: Sequence[int]) -> StageData:
        """The training images of a stage."""

    @abstractmethod
    def labels(self) -> list[tuple[int, str]]:
        """Every fact or class as its task and its name, in the order in which labels are numbered."""

    @abstractmethod
    def numbers_of(self, names: Sequence[str]) -> list[int]:
        """The numbers of facts (or patterns) or classes among all labels.

        Raises:
            FactlearnError: if there is no such fact or class.
        """

    @abstractmethod
    def labelled_photos(self, task: int) -> list[tuple[Path, int]]:
        """The training photos of a task, each with the number of its label; none where it learns from rows."""

    @abstractmethod
    def labelled_images(self, task: int, rows: Sequence[int]) -> StageData:
        """Some of the training images of a task, by their places among `labelled_photos`."""

    def solving_learner(self, learner: Learner, learned: int) -> Learner:
        """Set a learner up to solve for the outputs of the first tasks in closed form."""
        return self.importance_learner(learner, None)

    @abstractmethod
    def test_inputs(self, stage: Sequence[int]) -> Inputs:
        """The test images of a stage."""

    @abstractmethod
    def named_inputs(self, names: Sequence[str]) -> Inputs:
        """The training images of named facts or classes."""

    @abstractmethod
    def judge(self, learned: Sequence[int]) -> Judgement:
        """Evaluate the test images of the tasks learned so far."""

    @abstractmethod
    def model_bytes(self, learned: Sequence[int]) -> int:
        """The size of the network that these tasks need."""

    def reorder(self, names: Sequence[str]) -> None:
        """Learn the tasks in another order from now on; refused here, since heads are in the order of the tasks."""
        if list(names) != self.tasks:
            raise RunError(
                f"A network with heads learns its tasks in order: {', '.join(self.tasks)}; name the next ones."
            )

    def describe_stage(self, stage: Sequence[int], data: StageData) -> str:
        """The stage in a few words."""
        return f"{' + '.join(self.tasks[task] for task in stage)}, {len(data.inputs)} images"

    def prepare(self, number: int, stage: Sequence[int], data: StageData) -> Preparation:
        """Get ready for the stage of this number (from 1)."""
        return Preparation()

    def importance_learner(self, learner: Learner, names: Sequence[str] | None) -> Learner:
        """Set a learner up to measure importance on named facts or classes, or (None) on images of any kind."""
        return learner

    def importance_batches(self, stage: Sequence[int], data: StageData, read: Any = in_order) -> Iterator[Any]:
        """Batches of the images that a stage's importance is measured on, as the config's strategy says.

        The training images come with their targets, which only the empirical Fisher looks at; all others without.
        Read as by `StageData.labelled_batches`.
        """
        size = self.config.evaluation.batch_size
        sources = [self._importance_source(task) for task in stage]
        for source in dict.fromkeys(sources):
            if source in ("train", "both"):
                yield from data.labelled_batches(size, read)
            if source != "train":
                yield from read(self.images_of(source, stage), size)

    def _importance_source(self, task: int) -> Any:
        """Where the config has a task's importance measured; if all those photos are gone, on its training images."""
        source = self.config.strategy.importance_of(self.tasks[task])
        if self.images.gone and isinstance(source, tuple) and not len(self.named_inputs(source)):
            say(f"No photo of {', '.join(source)} is left: importance is measured on {self.tasks[task]} itself.")
            return "train"
        return source

    def images_of(self, source: Any, stage: Sequence[int] = ()) -> Inputs:
        """Unlabelled images: a stage's test images (`test`, `both`), a folder's, or those of named facts or classes."""
        if isinstance(source, Path):
            return open_inputs(self.model, find_images(source), keep=False)
        inputs = self.named_inputs(source) if isinstance(source, tuple) else self.test_inputs(stage)
        if not len(inputs):
            what = ", ".join(source) if isinstance(source, tuple) else "the test images"
            raise RunError(f"Importance cannot be measured on {what}: none of their photos exists any more.")
        return inputs

    def protected_learner(self, learner: Learner, learned: Sequence[int]) -> Learner | None:
        """A learner to measure importance on what the config protects; None while none of that is learned."""
        source = self.config.strategy.protected
        if source is None:
            return None
        names = self.learned_names(source, learned) if isinstance(source, tuple) else None
        if names is not None and not names:
            return None
        if names and not len(self.named_inputs(names)):
            say(f"No photo of {', '.join(names)} is left: their protection stays as it is.")
            return None
        measuring = Learner(learner.module, learner.optimizer, learner.task, together=learner.together)
        return self.measuring(measuring, source if names is None else tuple(names))

    def measuring(self, learner: Learner, source: Any) -> Learner:
        """A learner set up to measure importance on a folder's images, or on those of named facts or classes."""
        learner.inputs = self.batches_of(source)
        return self.importance_learner(learner, source if isinstance(source, tuple) else None)

    @abstractmethod
    def learned_names(self, names: Sequence[str], learned: Sequence[int]) -> list[str]:
        """The facts or classes that names or patterns stand for, of those that these tasks taught."""

    def batches_of(self, source: Any) -> Reiterable[Tensor]:
        """The images of a source as batches that can be read again and again."""
        inputs = self.images_of(source)
        size = self.config.evaluation.batch_size
        return Reiterable(lambda: in_order(inputs, size), lambda: shared_in_order(inputs, size))


def augmentation_views(config: TrainingConfig) -> list[View]:
    """The plain view, and those that flipping and zooming add."""
    flips = (False, True) if config.flip else (False,)
    return [View(flip, zoom) for zoom in (1.0, *config.zoom) for flip in flips]


def problem_class(config: RunConfig) -> type[Problem]:
    """The problem that a config asks to learn."""
    if config.learn == "classes":
        from factlearn.learning.classes import ClassProblem

        return ClassProblem
    if getattr(config.model, "readout", "") == "posterior":
        from factlearn.learning.posterior import PosteriorProblem

        return PosteriorProblem
    from factlearn.learning.facts import FactProblem

    return FactProblem
