"""Learning facts: images are embedded where the language space has their facts' units."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from factlearn.data.registry import open_facts
from factlearn.data.samples import FactDataset, Sample
from factlearn.data.tasks import Task, TaskSplit, choose_facts, make_tasks
from factlearn.errors import RunError
from factlearn.evaluation.facts import FactEvaluation, evaluate_vectors
from factlearn.facts import Fact
from factlearn.files import atomic_directory
from factlearn.language import LanguageSpace
from factlearn.learning.collection import RunImages
from factlearn.learning.config import FactsConfig
from factlearn.learning.held_out import calibrate
from factlearn.learning.problem import Judgement, Preparation, Problem, StageData, augmentation_views
from factlearn.learning.records import about_data, rows_of, write_record
from factlearn.learning.runs import Run
from factlearn.learning.seeds import seed_initial_weights
from factlearn.lifelong.memory import bytes_of
from factlearn.lifelong.strategy import Learner
from factlearn.models.embedder import build_embedder
from factlearn.models.inference import embed_inputs
from factlearn.models.inputs import Inputs, in_order, labelled, open_inputs, shuffled
from factlearn.models.network import TwoPartModel
from factlearn.models.preprocess import PLAIN, View
from factlearn.progress import say

_FAR = 1e3


@dataclass(frozen=True)
class FactStage:
    """The training images of a stage, one row per image and fact: the fact's vectors, and its number in the run."""

    inputs: Inputs
    targets: Tensor
    mask: Tensor
    views: int
    numbers: Tensor

    def epoch(self, seed: int, batch_size: int) -> Iterator[tuple[Tensor, ...]]:
        """Every row once, in random order, each under a random view."""
        device = self.targets.device
        for batch, rows in shuffled(self.inputs, self.views, seed, batch_size):
            place = rows.to(device)
            yield batch.to(device), self.targets[place], self.mask[place]

    def loss(self, outputs: Tensor, *targets: Tensor) -> Tensor:
        """How far the vectors of a batch are from their facts'."""
        return masked_squared_distance(outputs, *targets)

    def labelled_batches(self, batch_size: int, read: Any = in_order) -> Iterator[Any]:
        """Every row once, in its order, with its target (NaN where the fact has no such unit) and fact number."""
        targets = self.targets.masked_fill(self.mask.unsqueeze(2) == 0, float("nan"))
        return labelled(read, self.inputs, batch_size, targets, self.numbers)


def masked_squared_distance(vectors: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """The loss: squared distance to each unit the fact has, summed over units, averaged over images."""
    distances = (vectors - targets).square().sum(dim=2)
    return (distances * mask).sum(dim=1).mean()


class FactProblem(Problem):
    """Facts in tasks, embedded by the network that `build` makes."""

    evaluation: ClassVar[Any] = FactEvaluation
    config: FactsConfig

    def __init__(
        self, config: FactsConfig, model: TwoPartModel[Any], language: LanguageSpace, split: TaskSplit
    ) -> None:
        self.config, self.model, self.language, self.split = config, model, language, split

    @classmethod
    def plan(cls, config: Any) -> Self:
        """A new problem from its config."""
        dataset = open_facts(config.data, config.seed)
        language = config.language.open(dataset.facts, dataset.aliases)
        split = make_tasks(config.tasks, dataset, language, config.seed)
        subset_facts(config, dataset)
        seed_initial_weights(config.seed)
        problem = cls(config, cls.build(config, split.tasks, language), language, split)
        problem.images = RunImages(dataset)
        return problem

    @classmethod
    def of_run(cls, run: Run, model: TwoPartModel[Any]) -> Self:
        """The problem of a run directory."""
        assert isinstance(run.config, FactsConfig)
        problem = cls(run.config, model, run.language(), run.tasks())
        problem._run = run
        return problem

    @staticmethod
    def build(
        config: FactsConfig, tasks: Sequence[Task], language: LanguageSpace, *, pretrained: bool = True
    ) -> TwoPartModel[Any]:
        """The network for some tasks; it does not grow with them."""
        return build_embedder(config.model, language.dimension, pretrained=pretrained)

    @classmethod
    def network(cls, run: Run, stage: int | None = None, *, pretrained: bool = False) -> TwoPartModel[Any]:
        """The network of a run as it was at a stage."""
        assert isinstance(run.config, FactsConfig)
        tasks = run.tasks().tasks[: run.tasks_at(stage)]
        return cls.build(run.config, tasks, run.language(), pretrained=pretrained)

    @property
    def dataset(self) -> FactDataset:
        """The images and their facts."""
        whole = self.images.whole
        assert isinstance(whole, FactDataset)
        return whole

    @property
    def fingerprint(self) -> str:
        """A name for exactly these images and facts."""
        return self.dataset.fingerprint

    @property
    def tasks(self) -> list[str]:  # type: ignore[override]
        """The names of the tasks, in order."""
        return [task.name for task in self.split.tasks]

    def save(self, run: Run) -> dict[str, Any]:
        """Write the tasks, the language space and the record of all photos."""
        self.save_tasks(run)
        save_language(run, self.language)
        write_record(run.folder / "data", rows_of(self.dataset), about_data(self.dataset))
        return {"data": self.dataset.name, "language_fingerprint": self.language.fingerprint}

    def save_tasks(self, run: Run) -> None:
        """Write the tasks in their order."""
        self.split.save(run.folder / "tasks.json")

    def reorder(self, names: Sequence[str]) -> None:
        """Learn the tasks in another order from now on."""
        by_name = {task.name: task for task in self.split.tasks}
        self.split = TaskSplit(self.split.method, tuple(by_name[name] for name in names), self.split.details)

    def stage_facts(self, stage: Sequence[int]) -> list[Fact]:
        """The facts of a stage."""
        return [fact for task in stage for fact in self.split.tasks[task].facts]

    def describe_stage(self, stage: Sequence[int], data: StageData) -> str:
        """The stage in a few words."""
        names = " + ".join(self.tasks[task] for task in stage)
        return f"{names}, {len(self.stage_facts(stage))} facts, {len(self._samples(stage, 'train'))} images"

    def _samples(self, stage: Sequence[int], split: str) -> list[Sample]:
        """The images of a stage's facts, with those facts alone; a fact may have other images in each task."""
        parts: dict[int, tuple[FactDataset, list[int]]] = {}
        for task in stage:
            part = self.images.of_task(self.tasks[task])
            assert isinstance(part, FactDataset)
            parts.setdefault(id(part), (part, []))[1].append(task)
        return [
            sample
            for part, tasks in parts.values()
            for sample in part.of_split(split).of_facts(self.stage_facts(tasks)).samples
        ]

    def training_photos(self, task: int) -> list[Path]:
        """The photos that a task is learned from."""
        return [sample.path for sample in self._samples([task], "train")]

    def stage_photos(self, stage: Sequence[int]) -> list[Path]:
        """The photo of each row that a stage learns from."""
        return [path for path, _ in training_rows(self._samples(stage, "train"))]

    def stage_data(self, stage: Sequence[int]) -> StageData:
        """The training images of a stage, under every view that augmentation draws from."""
        rows = training_rows(self._samples(stage, "train"))
        return self._labelled(rows, stage, augmentation_views(self.config.training))

    def _labelled(self, rows: Sequence[tuple[Path, Fact]], stage: Sequence[int], views: Sequence[View]) -> StageData:
        """Images of the facts of a stage, under some views."""
        places = self._places(stage)
        vectors, mask = self.language.embed([fact for _, fact in rows])
        inputs = open_inputs(self.model, [path for path, _ in rows], views=views)
        numbers = torch.tensor([places[fact] for _, fact in rows])
        device = self.model.device
        return FactStage(
            inputs, torch.from_numpy(vectors).to(device), torch.from_numpy(mask).to(device).float(), len(views), numbers
        )

    def labels(self) -> list[tuple[int, str]]:
        """Every fact with its task."""
        return [(number, str(fact)) for number, task in enumerate(self.split.tasks) for fact in task.facts]

    def numbers_of(self, names: Sequence[str]) -> list[int]:
        """The numbers of facts or patterns; a fact that two tasks teach has two."""
        facts = [Fact.parse(text) for _, text in self.labels()]
        chosen = set(choose_facts(names, list(dict.fromkeys(facts)), report=say))
        return [number for number, fact in enumerate(facts) if fact in chosen]

    def labelled_photos(self, task: int) -> list[tuple[Path, int]]:
        """The training photos of a task with the number of their fact; one row per photo and fact."""
        places = self._places([task])
        return [(path, places[fact]) for path, fact in training_rows(self._samples([task], "train"))]

    def labelled_images(self, task: int, rows: Sequence[int]) -> StageData:
        """Some of the training images of a task, by their places among its `labelled_photos`."""
        every = training_rows(self._samples([task], "train"))
        return self._labelled([every[row] for row in rows], [task], (PLAIN,))

    def solving_learner(self, learner: Learner, learned: int) -> Learner:
        """Tell the learner where the facts of the first tasks are in the language space."""
        learner.targets = self.targets(learned)
        return self.importance_learner(learner, None)

    def _places(self, stage: Sequence[int]) -> dict[Fact, int]:
        """The number of each fact of a stage among the facts of all tasks, task after task."""
        starts = np.cumsum([0, *(len(task.facts) for task in self.split.tasks)]).tolist()
        return {fact: starts[task] + n for task in stage for n, fact in enumerate(self.split.tasks[task].facts)}

    def targets(self, tasks: int) -> Tensor:
        """The word vectors [facts, 3, D] of the facts of the first tasks, NaN for units they lack."""
        vectors, mask = self.language.embed([fact for task in self.split.tasks[:tasks] for fact in task.facts])
        return torch.from_numpy(vectors).masked_fill(torch.from_numpy(mask).unsqueeze(2) == 0, float("nan"))

    def prepare(self, number: int, stage: Sequence[int], data: StageData) -> Preparation:
        """Tell the learner where the facts are in the language space."""
        return Preparation({"targets": self.targets(max(stage) + 1)})

    def test_inputs(self, stage: Sequence[int]) -> Inputs:
        """The test images of a stage's facts, those that remain."""
        samples = self.images.remaining(self._samples(stage, "test"))
        return open_inputs(self.model, [sample.path for sample in samples])

    def named_inputs(self, names: Sequence[str]) -> Inputs:
        """The training images of facts or patterns, those that remain."""
        train = self.dataset.of_split("train")
        samples = self.images.remaining(train.of_facts(choose_facts(names, train.facts, report=say)).samples)
        return open_inputs(self.model, [sample.path for sample in samples])

    def learned_names(self, names: Sequence[str], learned: Sequence[int]) -> list[str]:
        """The facts that facts or patterns stand for, of those that these tasks taught."""
        taught = set(self.stage_facts(learned))
        return [str(fact) for fact in choose_facts(names, self.dataset.of_split("train").facts) if fact in taught]

    @cached_property
    def _all_test_inputs(self) -> Inputs:
        remaining = self.images.remaining(self.dataset.of_split("test").samples)
        if not remaining:
            raise RunError(f"None of the test photos of {self.dataset.name} exists any more; restore some.")
        return open_inputs(self.model, [sample.path for sample in remaining])

    def judge(self, learned: Sequence[int]) -> Judgement:
        """Embed the test images that remain and measure MAP."""
        vectors = embed_inputs(self.model.suffix, self._all_test_inputs, self.config.evaluation.batch_size)
        tasks = [self.split.tasks[task] for task in learned]
        gone = self.images.gone
        kept = [sample for sample in self.dataset.samples if sample.split != "test" or sample.path not in gone]
        dataset = replace(self.dataset, samples=tuple(kept))
        outputs = {"vectors": torch.from_numpy(vectors)}
        if len(kept) < len(self.dataset):
            test = self.dataset.of_split("test").samples
            outputs["rows"] = torch.tensor([row for row, sample in enumerate(test) if sample.path not in gone])
        evaluation = evaluate_facts(self.config, dataset, self.language, tasks, vectors)
        return Judgement(outputs, evaluation, self._calibrated(tasks, vectors))

    def _calibrated(self, tasks: Sequence[Task], vectors: NDArray[np.float32]) -> dict[str, Any] | None:
        """The calibration by all test photos; those that are gone count by the vectors they had before."""
        test = self.dataset.of_split("test").samples
        there = np.array([sample.path not in self.images.gone for sample in test], bool)
        if not there.all() and self._run is not None and (finished := self._run.finished_stages()):
            stored, seen = (each[: len(test)] for each in seen_vectors(self._run, finished))
            stored = stored.copy()
            stored[there], there = vectors, there | seen
            vectors = stored[there]
        samples = [sample for sample, has_vector in zip(test, there, strict=True) if has_vector]
        found = calibrate(samples, vectors, {task.name: task.facts for task in tasks}, self.language)
        return None if found is None else found.to_json()

    def model_bytes(self, learned: Sequence[int]) -> int:
        """The whole network's size."""
        return bytes_of(self.model.parameters())


def training_rows(samples: Sequence[Sample]) -> list[tuple[Path, Fact]]:
    """What is learned from images: each with each of its facts."""
    return [(sample.path, fact) for sample in samples for fact in sample.facts]


def evaluate_facts(
    config: FactsConfig,
    dataset: FactDataset,
    language: LanguageSpace,
    tasks: Sequence[Task],
    vectors: NDArray[np.float32],
) -> FactEvaluation:
    """MAP of the test images' vectors on every task given, the whole test set and the config's subsets."""
    by_name = {task.name: task.facts for task in tasks}
    return _evaluate(dataset, language, vectors, by_name, subset_facts(config, dataset))


def evaluate_groups(
    dataset: FactDataset,
    language: LanguageSpace,
    groups: Mapping[str, Sequence[Fact]],
    vectors: NDArray[np.float32],
) -> FactEvaluation:
    """MAP of groups of facts, each among its own test images (`tasks`) and among all (`subsets`)."""
    return _evaluate(dataset, language, vectors, groups, groups)


def _evaluate(
    dataset: FactDataset,
    language: LanguageSpace,
    vectors: NDArray[np.float32],
    tasks: Mapping[str, Sequence[Fact]],
    subsets: Mapping[str, Sequence[Fact]],
) -> FactEvaluation:
    test = dataset.of_split("test")
    facts = dataset.of_split("train").facts
    known = set(facts)
    shown = [known.intersection(sample.facts) for sample in test.samples]
    kept = [row for row, each in enumerate(shown) if each]
    return evaluate_vectors(
        vectors[kept],
        [sorted(shown[row]) for row in kept],
        facts,
        language.embed(facts),
        ids=[test.samples[row].id for row in kept],
        tasks=tasks,
        subsets=subsets,
    )


def subset_facts(config: FactsConfig, dataset: FactDataset) -> dict[str, list[Fact]]:
    """The facts of the config's named subsets."""
    facts = dataset.of_split("train").facts
    return {name: choose_facts(patterns, facts) for name, patterns in config.evaluation.subsets.items()}


def save_language(run: Run, language: LanguageSpace) -> None:
    """Write the language space of a run, in place of the one before."""
    with atomic_directory(run.folder / "language") as folder:
        language.save(folder)


def test_vectors(run: Run, stage: int) -> NDArray[np.float32]:
    """The vectors [N, 3, D] that a stage's network gave the test images of `run.data`, in their order.

    A photo that was gone by then has the vector of the last stage that saw it, which is still comparable; one that was
    added later is far from every fact.
    """
    outputs = run.outputs(stage)
    vectors: NDArray[np.float32] = outputs["vectors"].numpy()
    if "rows" not in outputs and not run.additions():
        return vectors
    count = len(run.data.of_split("test"))
    if stage > 1 and "rows" in outputs:
        filled = test_vectors(run, stage - 1).copy()
    else:
        filled = np.full((count, *vectors.shape[1:]), _FAR, np.float32)
    rows = outputs["rows"].numpy() if "rows" in outputs else np.arange(len(vectors))
    filled[rows] = vectors
    return filled


def seen_vectors(run: Run, stage: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """`test_vectors`, and which of them are those of an image that was there."""
    vectors = test_vectors(run, stage)
    return vectors, (vectors != _FAR).any(axis=(1, 2))
