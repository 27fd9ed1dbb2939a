"""Random features: a fixed hidden layer whose weights follow from a seed, under outputs that are solved for.

    h -> [z, relu(z R)],   z: h with mean 0 and deviation 1 over its own values

A linear readout of these fits what one of h cannot (RanPAC, McDonnell et al. 2023). Each image is scaled by itself, not
by statistics of the first images, so that runs trained apart share their features and can be merged. Only the seed is
kept: R is drawn again when it is needed.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RandomFeatures(nn.Module):
    """Appends random ReLU features to features.

    Args:
        width: number of features.
        count: how many random ones are appended.
    """

    seed: Tensor

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.width, self.count = width, count
        self.register_buffer("seed", torch.randint(2**31, ()))
        self._drawn: tuple[int, Tensor] | None = None

    def forward(self, features: Tensor) -> Tensor:
        """[N, width] to [N, width + count]."""
        scaled = F.layer_norm(features, features.shape[1:])
        return torch.cat([scaled, (scaled @ self._projection(features)).relu()], dim=1)

    def _projection(self, like: Tensor) -> Tensor:
        seed = int(self.seed)
        if self._drawn is None or self._drawn[0] != seed or self._drawn[1].device != like.device:
            generator = torch.Generator().manual_seed(seed)
            weights = torch.randn(self.width, self.count, generator=generator) / self.width**0.5
            self._drawn = (seed, weights.to(like))
        return self._drawn[1]
