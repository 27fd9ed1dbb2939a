"""Importance of a part added to that of the whole, so that a part is protected more and nothing is protected less.

    omega = omega_whole + weight * omega_part * mean(omega_whole) / mean(omega_part)

The part's importance is brought to the mean of the whole's, so that `weight` says how many times the part counts
whatever the scale of its gradients. Importance on a part alone, as in the paper's adaptation, sets all else free: the
images that are not protected drift, and may come to lie on the facts that are.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from factlearn.errors import ModelError

Omega = Mapping[str, Tensor]


def mixed(whole: Omega, part: Omega, weight: float) -> dict[str, Tensor]:
    """The importance of the whole with that of a part added, over the parameters of the whole."""
    missing = sorted(whole.keys() - part.keys())
    if missing:
        raise ModelError(f"The importance to add has no parameter {missing[0]!r}; measure it on the same network.")
    part = {name: part[name].to(each.device) for name, each in whole.items()}
    size = mean_importance(part)
    scale = weight * mean_importance(whole) / size if size else 0.0
    return {name: each + scale * part[name] for name, each in whole.items()}


def mean_importance(omega: Omega) -> float:
    """The mean over all parameters."""
    total = sum(float(each.sum(dtype=torch.float64)) for each in omega.values())
    return total / max(1, sum(each.numel() for each in omega.values()))
