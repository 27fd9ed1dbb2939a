"""The images of a stage: what is learned from, and what importance is measured on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from factlearn.config import ModelConfig, RunConfig, TrainingConfig
from factlearn.data.samples import FactDataset, Sample
from factlearn.data.tasks import Task
from factlearn.facts import Fact
from factlearn.language import LanguageSpace
from factlearn.learning.assembly import choose_facts, make_preprocess
from factlearn.models.embedder import FactEmbedder
from factlearn.models.inputs import Inputs, in_order, open_inputs
from factlearn.models.parts import TwoPartModel
from factlearn.models.preprocess import PLAIN, View


def run_inputs(config: ModelConfig, model: TwoPartModel, paths: Sequence[Path], views: Sequence[View]) -> Inputs:
    """The inputs of a run's own images: kept activations where layers are frozen."""
    from factlearn.assets import cache_dir

    store = cache_dir() / "activations" if config.keep_activations else None
    return open_inputs(model, make_preprocess(config), paths, views=views, store=store)


def augmentation_views(config: TrainingConfig) -> list[View]:
    """The plain view, and those that flipping and zooming add."""
    flips = (False, True) if config.flip else (False,)
    return [View(flip, zoom) for zoom in (1.0, *config.zoom) for flip in flips]


def shuffled(inputs: Inputs, views: int, seed: int, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Every image once, in random order, each under a random view: batches, and the images' places in the list."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(inputs))
    drawn = generator.integers(views, size=len(order))
    cuts = range(batch_size, len(order), batch_size)
    requests = list(zip(np.split(order, cuts), np.split(drawn, cuts), strict=True))
    for (positions, _), batch in zip(requests, inputs.batches(requests), strict=True):
        yield batch, torch.from_numpy(positions)


@dataclass(frozen=True)
class StageData:
    """The training images of a stage with their facts' vectors."""

    inputs: Inputs
    targets: Tensor
    mask: Tensor
    views: int

    @classmethod
    def of(
        cls, config: RunConfig, model: FactEmbedder, language: LanguageSpace, samples: Sequence[Sample]
    ) -> "StageData":
        """Open the samples' inputs under every view that augmentation draws from."""
        views = augmentation_views(config.training)
        vectors, mask = language.embed([sample.fact for sample in samples if sample.fact])
        device = next(model.suffix.parameters()).device
        inputs = run_inputs(config.model, model, [sample.path for sample in samples], views)
        return cls(inputs, torch.from_numpy(vectors).to(device), torch.from_numpy(mask).to(device).float(), len(views))

    def epoch(self, seed: int, batch_size: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
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


def importance_batches(
    config: RunConfig, model: FactEmbedder, dataset: FactDataset, stage: Sequence[Task], data: StageData
) -> Iterator[Any]:
    """Batches of the images that a stage's importance is measured on, as the config's strategy says.

    The task's training images come with their targets, which only the empirical Fisher looks at; all others without.
    """
    size = config.evaluation.batch_size
    of_task = getattr(config.strategy, "importance_of", lambda task: "train")
    sources = list(dict.fromkeys(of_task(task.name) for task in stage))
    for source in sources:
        if source in ("train", "both"):
            yield from data.labelled_batches(size)
        if source != "train":
            facts = [fact for task in stage for fact in task.facts]
            yield from in_order(source_inputs(config, model, dataset, source, facts), size)


def source_inputs(
    config: RunConfig, model: FactEmbedder, dataset: FactDataset, source: Any, facts: Sequence[Fact]
) -> Inputs:
    """Unlabelled images: the test images of the stage's facts (`test`, `both`), a folder's, or those of named facts.

    Named facts are looked up among the training images.
    """
    if isinstance(source, Path):
        from factlearn.data.folder import folder_dataset

        paths = [sample.path for sample in folder_dataset(source).samples]
        return open_inputs(model, make_preprocess(config.model), paths, store=None)
    if isinstance(source, tuple):
        train = dataset.of_split("train")
        samples = train.of_facts(choose_facts(source, train.facts)).samples
    else:
        samples = dataset.of_split("test").of_facts(facts).samples
    return run_inputs(config.model, model, [sample.path for sample in samples], (PLAIN,))
