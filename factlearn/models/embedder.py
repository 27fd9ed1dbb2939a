"""The fact embedder: a backbone whose last fully connected layer forks into Subject, Predicate and Object."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from factlearn.facts import UNIT_NAMES
from factlearn.models.config import ModelConfig, weights_files
from factlearn.models.network import LearningPart, TwoPartModel


class FactSuffix(LearningPart):
    """The layers that learn: the unfrozen convolutions, the shared layers and the fork."""

    def __init__(self, *parts: Any, dimension: int) -> None:
        super().__init__(*parts)
        self.fork = nn.ModuleDict({unit: nn.Linear(self.width, dimension) for unit in UNIT_NAMES})

    def forward(self, activations: Tensor) -> Tensor:
        """Activations of the frozen prefix (or images, if nothing is frozen) to vectors [N, 3, D]."""
        shared = self.features(activations)
        return torch.stack([self.fork[unit](shared) for unit in UNIT_NAMES], dim=1)


class FactEmbedder(TwoPartModel[FactSuffix]):
    """Normalised images [N, 3, H, W] to fact vectors [N, 3, D].

    Args:
        config: the network under the fork.
        dimension: length D of a unit's vector in the language space.
    """

    def __init__(self, config: ModelConfig, dimension: int) -> None:
        super().__init__(config, partial(FactSuffix, dimension=dimension))


def build_embedder(config: ModelConfig, dimension: int, *, pretrained: bool = True) -> FactEmbedder:
    """The network, with its pretrained weights unless others are to be loaded."""
    model = FactEmbedder(config, dimension)
    if pretrained:
        model.load_pretrained(*weights_files(config))
    return model
