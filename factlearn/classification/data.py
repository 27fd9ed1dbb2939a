"""From a config to its tasks, and from a stage of tasks to the batches that are learned."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from factlearn.classification.config import ClassDataConfig, ClassifyConfig
from factlearn.data.classes import ClassSequence, ClassTask, Examples, Pictures, Rows, choose_tasks
from factlearn.errors import ConfigError
from factlearn.learning.assembly import make_preprocess
from factlearn.learning.stages import augmentation_views, run_inputs, shuffled
from factlearn.models.classifier import MultiHeadClassifier
from factlearn.models.inputs import Inputs, Positions, in_order, open_inputs
from factlearn.models.preprocess import PLAIN, View


def open_sequence(config: ClassDataConfig, seed: int) -> ClassSequence:
    """The tasks of a run, in their order."""
    if config.source == "emoji8":
        from factlearn.data.emoji_classes import emoji_classes

        return emoji_classes(config.tasks, vendors=config.vendors, classes=config.classes)
    if config.source == "permuted-digits":
        from factlearn.data.digits import permuted_digits

        return _chosen(permuted_digits(config.count, seed), config.tasks)
    if config.source == "split-digits":
        from factlearn.data.digits import split_digits

        return _chosen(split_digits(config.count, seed), config.tasks)
    assert config.root is not None
    if config.source == "paper":
        from factlearn.data.paper_sets import paper_sets

        return paper_sets(config.root, config.tasks, classes=config.classes)
    from factlearn.data.class_folders import class_folders

    return class_folders(config.root, config.tasks, classes=config.classes, test_share=config.test_share)


def _chosen(sequence: ClassSequence, wanted: Sequence[str] | None) -> ClassSequence:
    by_name = {task.name: task for task in sequence.tasks}
    return replace(sequence, tasks=tuple(by_name[name] for name in choose_tasks(list(by_name), wanted, sequence.name)))


def check_network(config: ClassifyConfig, sequence: ClassSequence) -> int | None:
    """The length of a row where the tasks are rows of values; an error where network and data do not go together."""
    rows = isinstance(sequence.tasks[0].train, Rows)
    if rows and config.model.architecture != "perceptron":
        raise ConfigError(
            f"model.architecture: {config.model.architecture} looks at images, and {sequence.name} are rows of "
            "values; use perceptron."
        )
    return sequence.tasks[0].train.values.shape[1] if isinstance(sequence.tasks[0].train, Rows) else None


class RowInputs:
    """Rows of values as the network's inputs; there is one view of them."""

    def __init__(self, values: np.ndarray[Any, np.dtype[np.float32]]) -> None:
        self._values = torch.from_numpy(values)

    def __len__(self) -> int:
        return len(self._values)

    def batches(self, requests: Iterable[tuple[Positions, Positions]]) -> Iterator[Tensor]:
        """Rows by their positions."""
        for positions, _ in requests:
            yield self._values[torch.from_numpy(positions)]


def example_inputs(
    config: ClassifyConfig, model: MultiHeadClassifier, examples: Sequence[Examples], views: Sequence[View] = (PLAIN,)
) -> Inputs:
    """What the learning part of the network is fed for these examples, one group after the other."""
    if isinstance(examples[0], Rows):
        return RowInputs(np.concatenate([each.values for each in examples if isinstance(each, Rows)]))
    paths = [path for each in examples if isinstance(each, Pictures) for path in each.paths]
    return run_inputs(config.model, model, paths, views)


@dataclass(frozen=True)
class ClassStage:
    """The training images of a stage's tasks.

    Attributes:
        tasks: the number of each image's task.
        labels: the number of each image's class in its task.
    """

    inputs: Inputs
    tasks: Tensor
    labels: Tensor
    views: int

    @classmethod
    def of(
        cls, config: ClassifyConfig, model: MultiHeadClassifier, stage: Sequence[tuple[int, ClassTask]]
    ) -> "ClassStage":
        """Open the images of numbered tasks under every view that augmentation draws from."""
        views = augmentation_views(config.training)
        inputs = example_inputs(config, model, [task.train for _, task in stage], views)
        device = next(model.suffix.parameters()).device
        numbers = np.concatenate([np.full(len(task.train), number) for number, task in stage])
        labels = np.concatenate([task.train.labels for _, task in stage])
        rows = isinstance(inputs, RowInputs)
        return cls(
            inputs, torch.from_numpy(numbers).to(device), torch.from_numpy(labels).to(device), 1 if rows else len(views)
        )

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
        present = tasks.unique().tolist()
        if len(present) == 1:
            return F.cross_entropy(outputs[present[0]], labels)
        sums = [
            F.cross_entropy(outputs[task][tasks == task], labels[tasks == task], reduction="sum") for task in present
        ]
        return torch.stack(sums).sum() / len(labels)

    def labelled_batches(self, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Every image once, in its order, with its class."""
        yield from zip(in_order(self.inputs, batch_size), self.labels.split(batch_size), strict=True)


def importance_head(config: ClassifyConfig, sequence: ClassSequence, task: int) -> int:
    """The head whose output a task's importance is about: its own, or that of the classes to be kept."""
    source = _source(config, sequence.tasks[task])
    if not isinstance(source, tuple):
        return task
    heads = {sequence.find_class(name)[0] for name in source}
    if len(heads) > 1:
        names = ", ".join(sequence.tasks[head].name for head in sorted(heads))
        raise ConfigError(f"strategy.importance: the classes belong to several tasks ({names}); name those of one.")
    head = heads.pop()
    if head > task:
        raise ConfigError(
            f"strategy.importance: {source[0]!r} belongs to {sequence.tasks[head].name}, which is learned after "
            f"{sequence.tasks[task].name}; name it for later tasks only."
        )
    return head


def importance_batches(
    config: ClassifyConfig, model: MultiHeadClassifier, sequence: ClassSequence, task: int, data: ClassStage
) -> Iterator[Any]:
    """Batches of the images that a task's importance is measured on, as the config's strategy says.

    Only the task's training images come with their classes, which nobody but the empirical Fisher looks at.
    """
    size = config.evaluation.batch_size
    source = _source(config, sequence.tasks[task])
    if source in ("train", "both"):
        yield from data.labelled_batches(size)
    if source in ("test", "both"):
        yield from in_order(example_inputs(config, model, [sequence.tasks[task].test]), size)
    elif isinstance(source, Path):
        from factlearn.images import find_images

        inputs = open_inputs(model, make_preprocess(config.model), find_images(source), store=None)
        yield from in_order(inputs, size)
    elif isinstance(source, tuple):
        places = [sequence.find_class(name) for name in source]
        chosen = [sequence.tasks[number].train.of_class(label) for number, label in places]
        yield from in_order(example_inputs(config, model, chosen), size)


def _source(config: ClassifyConfig, task: ClassTask) -> Any:
    of_task = getattr(config.strategy, "importance_of", None)
    return of_task(task.name) if of_task else "train"
