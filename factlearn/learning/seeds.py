"""The one place that seeds: every random choice depends only on the config's seed and its place in the run.

So a run that resumes from a checkpoint draws the same numbers as one that was never interrupted.
"""

from typing import Any

import torch

from factlearn.files import fingerprint


def derived_seed(seed: int, *place: Any) -> int:
    """A seed for one place in the run, from the run's one seed."""
    return int(fingerprint(seed, *place)[:8], 16)


def seed_initial_weights(seed: int) -> None:
    """Make the next network built start from the weights that the seed stands for."""
    torch.manual_seed(derived_seed(seed, "initial weights"))
