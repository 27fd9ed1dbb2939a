"""Several frozen backbones looking at the same image, their features side by side."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from factlearn.models.backbones import Backbone


class SideBySide(nn.ModuleList):
    """Sends plain pixel values through several networks, each normalised as that network expects.

    Attributes:
        mean, std: of each network's pixel values, [networks, 3, 1, 1].
    """

    mean: Tensor
    std: Tensor

    def __init__(self, networks: Sequence[nn.Module], backbones: Sequence[Backbone]) -> None:
        super().__init__(networks)
        for name in ("mean", "std"):
            values = torch.tensor([getattr(backbone, name) for backbone in backbones])
            self.register_buffer(name, values.view(-1, 3, 1, 1) * 255)

    def each(self, pixels: Tensor) -> list[Tensor]:
        """The features [N, C, 1, 1] of each network by itself."""
        triples = zip(self, self.mean, self.std, strict=True)
        return [network((pixels - mean) / std) for network, mean, std in triples]

    def forward(self, pixels: Tensor) -> Tensor:
        """Pixel values [N, 3, H, W] from 0 to 255 to features [N, C, 1, 1]."""
        return torch.cat(self.each(pixels), dim=1)
