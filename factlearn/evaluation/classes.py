"""What a classifier says of test images: with the oracle's head, without it, and before a task was learned."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from factlearn.data.classes import Labels
from factlearn.models.classifier import MultiHeadSuffix
from factlearn.models.inputs import Inputs, in_order


@dataclass(frozen=True)
class Predictions:
    """Of one task's test images.

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

    def to_tensors(self, name: str) -> dict[str, Tensor]:
        """For a stage's file."""
        parts = {"own": self.own, "task": self.free_task, "class": self.free_class}
        return {f"{name}.{part}": torch.from_numpy(values.astype(np.int32)) for part, values in parts.items()}

    @classmethod
    def of_tensors(cls, tensors: dict[str, Tensor], name: str) -> "Predictions":
        """What `to_tensors` gave."""
        return cls(*(tensors[f"{name}.{part}"].numpy().astype(np.int64) for part in ("own", "task", "class")))


def most_confident(scores: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Of the heads' scores [N, classes]: the head whose softmax is highest, its class, and that probability."""
    best = [head.softmax(1).max(1) for head in scores]
    confidence, task = torch.stack([value for value, _ in best], dim=1).max(1)
    chosen = torch.stack([place for _, place in best], dim=1).gather(1, task.unsqueeze(1)).squeeze(1)
    return task, chosen, confidence


@torch.inference_mode()
def predict_task(module: MultiHeadSuffix, inputs: Inputs, task: int, learned: int, batch_size: int) -> Predictions:
    """What the first `learned` heads say of one task's images."""
    device = next(module.parameters()).device
    module.eval()
    parts: list[tuple[NDArray[np.int64], ...]] = []
    for batch in in_order(inputs, batch_size):
        features = module.features(batch.to(device))
        scores = module.task_scores(features, learned)
        free_task, free_class, _ = most_confident(scores)
        if module.one_head:  # nobody needs to be told the task
            free_task = torch.full_like(free_task, task)
        parts.append(tuple(each.cpu().numpy() for each in (scores[task].argmax(1), free_task, free_class)))
    return Predictions(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@torch.inference_mode()
def nearest_mean_accuracy(
    module: MultiHeadSuffix, train: Inputs, train_labels: Labels, test: Inputs, test_labels: Labels, batch_size: int
) -> float:
    """How well the nearest class mean of the network's features tells a task's classes, before the task is learned.

    No head takes part, so it says what the shared layers bring to a task: the ground of forward transfer.
    """
    device = next(module.parameters()).device
    module.eval()
    means = torch.zeros(int(train_labels.max()) + 1, module.width, device=device)
    start = 0
    for features in _unit_features(module, train, batch_size):
        labels = torch.from_numpy(train_labels[start : start + len(features)]).to(device)
        means.index_add_(0, labels, features)
        start += len(features)
    means = F.normalize(means, dim=1)
    found = [(features @ means.T).argmax(1).cpu().numpy() for features in _unit_features(module, test, batch_size)]
    return float(np.mean(np.concatenate(found) == test_labels))


def _unit_features(module: MultiHeadSuffix, inputs: Inputs, batch_size: int) -> Iterator[Tensor]:
    device = next(module.parameters()).device
    for batch in in_order(inputs, batch_size):
        yield F.normalize(module.features(batch.to(device)), dim=1)
