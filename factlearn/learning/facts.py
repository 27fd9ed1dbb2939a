"""Learning facts: images are embedded where the language space has their facts' units."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from factlearn.data.registry import open_facts
from factlearn.data.samples import FactDataset
from factlearn.data.tasks import Task, TaskSplit, choose_facts, make_tasks
from factlearn.evaluation.facts import FactEvaluation, evaluate_vectors
from factlearn.facts import Fact
from factlearn.language import LanguageSpace
from factlearn.learning.config import FactsConfig
from factlearn.learning.problem import Judgement, Problem, StageData, augmentation_views
from factlearn.learning.runs import Run
from factlearn.learning.seeds import seed_initial_weights
from factlearn.lifelong.memory import bytes_of
from factlearn.models.embedder import FactEmbedder, build_embedder
from factlearn.models.inference import embed_inputs
from factlearn.models.inputs import Inputs, in_order, open_inputs, shuffled
from factlearn.models.network import TwoPartModel
from factlearn.progress import say


@dataclass(frozen=True)
class FactStage:
    """The training images of a stage with the vectors of their facts."""

    inputs: Inputs
    targets: Tensor
    mask: Tensor
    views: int

    def epoch(self, seed: int, batch_size: int) -> Iterator[tuple[Tensor, ...]]:
        """Every image once, in random order, each under a random view."""
        device = self.targets.device
        for batch, rows in shuffled(self.inputs, self.views, seed, batch_size):
            place = rows.to(device)
            yield batch.to(device), self.targets[place], self.mask[place]

    def loss(self, outputs: Tensor, *targets: Tensor) -> Tensor:
        """How far the vectors of a batch are from their facts'."""
        return masked_squared_distance(outputs, *targets)

    def labelled_batches(self, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Every image once, in its order, with its target; NaN where the fact has no such unit."""
        targets = self.targets.masked_fill(self.mask.unsqueeze(2) == 0, float("nan"))
        yield from zip(in_order(self.inputs, batch_size), targets.split(batch_size), strict=True)


def masked_squared_distance(vectors: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """The loss: squared distance to each unit the fact has, summed over units, averaged over images."""
    distances = (vectors - targets).square().sum(dim=2)
    return (distances * mask).sum(dim=1).mean()


class FactProblem(Problem):
    """Facts in tasks, embedded by a `FactEmbedder`."""

    evaluation: ClassVar[Any] = FactEvaluation
    config: FactsConfig
    model: FactEmbedder

    def __init__(
        self,
        config: FactsConfig,
        model: FactEmbedder,
        language: LanguageSpace,
        split: TaskSplit,
        dataset: FactDataset | None = None,
    ) -> None:
        self.config, self.model, self.language, self.split = config, model, language, split
        if dataset is not None:
            self.dataset = dataset

    @classmethod
    def plan(cls, config: Any) -> Self:
        """A new problem from its config."""
        dataset = open_facts(config.data, config.seed)
        language = config.language.open(dataset.facts, dataset.aliases)
        split = make_tasks(config.tasks, dataset, language, config.seed)
        subset_facts(config, dataset)
        seed_initial_weights(config.seed)
        return cls(config, build_embedder(config.model, language.dimension), language, split, dataset)

    @classmethod
    def of_run(cls, run: Run, model: TwoPartModel[Any]) -> Self:
        """The problem of a run directory."""
        assert isinstance(run.config, FactsConfig)
        assert isinstance(model, FactEmbedder)
        return cls(run.config, model, run.language(), run.tasks())

    @staticmethod
    def network(run: Run, stage: int) -> FactEmbedder:
        """The network of a run, its weights not yet loaded."""
        return build_embedder(run.config.model, run.language().dimension, pretrained=False)

    @cached_property
    def dataset(self) -> FactDataset:
        """The images and their facts."""
        return open_facts(self.config.data, self.config.seed)

    @property
    def fingerprint(self) -> str:
        """A name for exactly these images and facts."""
        return self.dataset.fingerprint

    @property
    def tasks(self) -> list[str]:  # type: ignore[override]
        """The names of the tasks, in order."""
        return [task.name for task in self.split.tasks]

    def save(self, run: Run) -> dict[str, Any]:
        """Write the tasks and the language space."""
        self.split.save(run.folder / "tasks.json")
        self.language.save(run.folder / "language")
        return {"data": self.dataset.name, "language_fingerprint": self.language.fingerprint}

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
        return f"{names}, {len(self.stage_facts(stage))} facts, {len(data.inputs)} images"

    def stage_data(self, stage: Sequence[int]) -> FactStage:
        """The training images of a stage, under every view that augmentation draws from."""
        samples = self.dataset.of_split("train").of_facts(self.stage_facts(stage)).samples
        views = augmentation_views(self.config.training)
        vectors, mask = self.language.embed([sample.fact for sample in samples if sample.fact])
        inputs = open_inputs(self.model, [sample.path for sample in samples], views=views)
        device = self.model.device
        return FactStage(
            inputs, torch.from_numpy(vectors).to(device), torch.from_numpy(mask).to(device).float(), len(views)
        )

    def test_inputs(self, stage: Sequence[int]) -> Inputs:
        """The test images of a stage's facts."""
        samples = self.dataset.of_split("test").of_facts(self.stage_facts(stage)).samples
        return open_inputs(self.model, [sample.path for sample in samples])

    def named_inputs(self, names: Sequence[str]) -> Inputs:
        """The training images of facts or patterns."""
        train = self.dataset.of_split("train")
        samples = train.of_facts(choose_facts(names, train.facts, report=say)).samples
        return open_inputs(self.model, [sample.path for sample in samples])

    @cached_property
    def _all_test_inputs(self) -> Inputs:
        return open_inputs(self.model, [sample.path for sample in self.dataset.of_split("test").samples])

    def judge(self, learned: Sequence[int]) -> Judgement:
        """Embed the test images and measure MAP."""
        vectors = embed_inputs(self.model.suffix, self._all_test_inputs, self.config.evaluation.batch_size)
        tasks = [self.split.tasks[task] for task in learned]
        evaluation = evaluate_facts(self.config, self.dataset, self.language, tasks, vectors)
        return Judgement({"vectors": torch.from_numpy(vectors)}, evaluation)

    def model_bytes(self, learned: Sequence[int]) -> int:
        """The whole network's size."""
        return bytes_of(self.model.parameters())


def evaluate_facts(
    config: FactsConfig,
    dataset: FactDataset,
    language: LanguageSpace,
    tasks: Sequence[Task],
    vectors: NDArray[np.float32],
) -> FactEvaluation:
    """MAP of the test images' vectors on every task given, the whole test set and the config's subsets."""
    test = dataset.of_split("test")
    known = set(dataset.of_split("train").facts)
    kept = [row for row, sample in enumerate(test.samples) if sample.fact in known]
    facts = sorted(known)
    return evaluate_vectors(
        vectors[kept],
        [fact for row in kept if (fact := test.samples[row].fact)],
        facts,
        language.embed(facts),
        ids=[test.samples[row].id for row in kept],
        tasks={task.name: task.facts for task in tasks},
        subsets=subset_facts(config, dataset),
    )


def subset_facts(config: FactsConfig, dataset: FactDataset) -> dict[str, list[Fact]]:
    """The facts of the config's named subsets."""
    facts = dataset.of_split("train").facts
    return {name: choose_facts(patterns, facts) for name, patterns in config.evaluation.subsets.items()}


def test_vectors(run: Run, stage: int) -> NDArray[np.float32]:
    """The vectors [N, 3, D] that a stage's network gave the test images."""
    return run.outputs(stage)["vectors"].numpy()
