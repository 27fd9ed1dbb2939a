"""Inference: the one place where trained networks are applied to images."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from factlearn import processes
from factlearn.errors import ImageError
from factlearn.models.classifier import MultiHeadSuffix
from factlearn.models.decoding import image_batches
from factlearn.models.inputs import Inputs, shared_in_order
from factlearn.models.network import LearningPart, TwoPartModel
from factlearn.models.preprocess import Preprocess
from factlearn.processes import Elsewhere

Labels = NDArray[np.int64]


@torch.inference_mode()
def embed_inputs(module: LearningPart, inputs: Inputs, batch_size: int) -> NDArray[np.float32]:
    """Vectors [N, 3, D] of inputs of the learning part, in their order; processes share the work."""
    return _rows(module, module, inputs, batch_size).numpy()


def _rows(module: LearningPart, compute: Callable[[Tensor], Tensor], inputs: Inputs, batch_size: int) -> Tensor:
    """One row of float32 for each input, in their order; processes share the batches."""
    device = next(module.parameters()).device
    module.eval()
    parts = (
        batch if isinstance(batch, Elsewhere) else compute(batch.to(device)).float().cpu()
        for batch in shared_in_order(inputs, batch_size)
    )
    return processes.whole(parts, like=torch.zeros(0))


@torch.inference_mode()
def embed_images(
    model: TwoPartModel[Any],
    paths: Sequence[Path],
    preprocess: Preprocess | None = None,
    *,
    batch_size: int = 64,
    on_error: Callable[[ImageError], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[NDArray[np.float32], list[int]]:
    """Vectors [N, 3, D] of image files, and the positions of those that could be decoded.

    Raises:
        ImageError: if an image cannot be decoded, unless `on_error` takes it; always if none can.
    """
    model.eval()
    vectors, kept = [], []
    for batch in image_batches(paths, preprocess or Preprocess.of(model.config), batch_size, on_error=on_error):
        if batch.positions:
            vectors.append(model(batch.images.to(model.device)).float().cpu().numpy())
            kept += batch.positions
        if progress:
            progress(batch_size)
    if not vectors:
        raise ImageError("None of the images could be decoded; see the warnings above for each.")
    return np.concatenate(vectors), kept


@torch.inference_mode()
def predict_task(
    module: MultiHeadSuffix, inputs: Inputs, task: int, learned: int, batch_size: int
) -> tuple[list[Labels], list[NDArray[np.float32]]]:
    """What the first `learned` heads say of one task's images; processes share the work.

    Returns:
        The class that the task's own head gives, the task whose head is the most confident and the class it gives;
        and the scores of each head [N, classes].
    """
    heads = [module.heads[0]] * learned if module.one_head else list(module.heads)[:learned]
    widths: list[int] = [head.out_features for head in heads]  # type: ignore[misc]
    said = _rows(module, lambda b: torch.cat(module.task_scores(module.features(b), learned), 1), inputs, batch_size)
    scores = [each.contiguous() for each in said.split(widths, dim=1)]
    free_task, free_class = _most_confident(scores)
    if module.one_head:  # nobody needs to be told the task
        free_task = torch.full_like(free_task, task)
    answers = [each.numpy() for each in (scores[task].argmax(1), free_task, free_class)]
    return answers, [head.numpy() for head in scores]


def _most_confident(scores: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Of the heads' scores [N, classes]: the head whose softmax is highest, and its class."""
    best = [head.softmax(1).max(1) for head in scores]
    task = torch.stack([value for value, _ in best], dim=1).argmax(1)
    return task, torch.stack([place for _, place in best], dim=1).gather(1, task.unsqueeze(1)).squeeze(1)


@torch.inference_mode()
def score_images(
    model: TwoPartModel[MultiHeadSuffix],
    paths: Sequence[Path],
    heads: Sequence[int],
    batch_size: int = 32,
    *,
    on_error: Callable[[ImageError], None] | None = None,
) -> tuple[list[NDArray[np.float32]], list[int]]:
    """The scores [N, classes] of these heads for image files, and the positions of those that could be decoded.

    Raises:
        ImageError: if an image cannot be decoded, unless `on_error` takes it; always if none can.
    """
    model.eval()
    parts, kept = [], []
    for batch in image_batches(paths, Preprocess.of(model.config), batch_size, on_error=on_error):
        if batch.positions:
            features = model.suffix.features(model.frozen(batch.images.to(model.device)))
            scores = model.suffix.task_scores(features, max(heads) + 1)
            parts.append([scores[head].float().cpu().numpy() for head in heads])
            kept += batch.positions
    if not parts:
        raise ImageError("None of the images could be decoded; see the warnings above for each.")
    return [np.concatenate(column) for column in zip(*parts, strict=True)], kept


@torch.inference_mode()
def nearest_mean_accuracy(
    module: LearningPart, train: Inputs, train_labels: Labels, test: Inputs, test_labels: Labels, batch_size: int
) -> float:
    """How well the nearest class mean of the network's features tells a task's classes, before the task is learned.

    No head takes part, so it says what the shared layers bring to a task: the ground of forward transfer.
    """
    device = next(module.parameters()).device
    module.eval()
    means = torch.zeros(int(train_labels.max()) + 1, module.width, device=device)
    labels = torch.from_numpy(train_labels).split(batch_size)
    for batch, own in zip(shared_in_order(train, batch_size), labels, strict=True):
        if not isinstance(batch, Elsewhere):
            means.index_add_(0, own.to(device), _unit_features(module, batch.to(device)))
    means = F.normalize(processes.total(means), dim=1)
    found = _rows(module, lambda batch: (_unit_features(module, batch) @ means.T).argmax(1), test, batch_size)
    return float(np.mean(found.numpy() == test_labels))


def _unit_features(module: LearningPart, inputs: Tensor) -> Tensor:
    return F.normalize(module.features(inputs), dim=1)
