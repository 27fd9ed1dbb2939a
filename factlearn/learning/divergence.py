"""Divergence: stop at a loss that is not finite, before it reaches a checkpoint, and name its images."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from factlearn.data.checking import listed
from factlearn.errors import RunError
from factlearn.learning.problem import Problem


def check_finite(
    loss: Tensor, problem: Problem, stage: Sequence[int], epoch: int, *, count: int, seed: int, place: slice
) -> None:
    """Refuse to learn from a batch whose loss is infinite or not a number.

    Args:
        epoch: from 0.
        count: the number of rows of the stage.
        seed: of the epoch.
        place: of the batch in the epoch's order.

    Raises:
        RunError: naming the images of the batch.
    """
    if torch.isfinite(loss):
        return
    rows = np.random.default_rng(seed).permutation(count)[place]  # as `models.inputs.shuffled` draws it
    photos = problem.stage_photos(stage)
    names = [str(photos[row]) for row in rows] if len(photos) == count else [f"row {row}" for row in rows]
    raise RunError(
        f"The loss diverged in epoch {epoch + 1} ({float(loss)}) and learning has stopped; the last checkpoint is "
        f"kept. Lower training.learning_rate, or check the images of this batch:{listed(names)}"
    )


def check_weights(parameters: Iterable[Tensor]) -> None:
    """Refuse to keep weights that are infinite or not a number, so that the checkpoint before them stays.

    Raises:
        RunError: if one is.
    """
    if not all(bool(torch.isfinite(each).all()) for each in parameters):
        raise RunError(
            "The weights diverged to values that are not finite and learning has stopped; the last checkpoint is kept. "
            "Lower training.learning_rate."
        )
