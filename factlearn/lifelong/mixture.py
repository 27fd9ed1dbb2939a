"""Importance of a part added to that of the whole, so that a part is protected more and nothing is protected less.

    omega = omega_whole + m * (weight * omega_part / mean(omega_part) + floor),     m = mean(omega_whole)

The part's importance is brought to the mean of the whole's, so that `weight` says how many times the part counts
whatever the scale of its gradients. Importance on a part alone, as in the paper's adaptation, sets all else free: the
images that are not protected drift, and may come to lie on the facts that are. The floor is needed as much: a firmer
hold on the important parameters alone drives the others so far that the first-order importance no longer describes
them, and everything is forgotten more, what is protected included.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from factlearn.errors import ModelError

Omega = Mapping[str, Tensor]


def mixed(whole: Omega, part: Omega, weight: float, floor: float = 0.0) -> dict[str, Tensor]:
    """The importance of the whole with that of a part and a floor added, over the parameters of the whole."""
    missing = sorted(whole.keys() - part.keys())
    if missing:
        raise ModelError(f"The importance to add has no parameter {missing[0]!r}; measure it on the same network.")
    part = {name: part[name].to(each.device) for name, each in whole.items()}
    mean, size = mean_importance(whole), mean_importance(part)
    scale = weight * mean / size if size else 0.0
    return {name: each + (scale * part[name] + floor * mean) for name, each in whole.items()}


def mean_importance(omega: Omega) -> float:
    """The mean over all parameters."""
    total = sum(float(each.sum(dtype=torch.float64)) for each in omega.values())
    return total / max(1, sum(each.numel() for each in omega.values()))
