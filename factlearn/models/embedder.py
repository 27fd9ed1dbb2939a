"""The fact embedder: a VGG-16 whose last fully connected layer forks into Subject, Predicate and Object."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from factlearn.errors import ModelError
from factlearn.facts import UNIT_NAMES
from factlearn.models.parts import LearningPart, TwoPartModel, split_layers
from factlearn.models.vision import torchvision

FrozenBlocks = Literal["none", "conv1", "conv2", "conv3", "conv4", "conv5"]
# Where each convolutional block of torchvision's VGG-16 ends, its pooling included.
BLOCK_ENDS = {"none": 0, "conv1": 5, "conv2": 10, "conv3": 17, "conv4": 24, "conv5": 31}
_CHANNELS = 512


@dataclass(frozen=True)
class EmbedderShape:
    """What fixes the network's layers.

    Attributes:
        dimension: length of a unit's vector in the language space.
        image_size: side of the square input in pixels; at least 32, a multiple of 32 loses no border.
        frozen: the last convolutional block that does not learn.
        hidden: widths of the shared fully connected layers.
        dropout: after each of them.
        blocks: how many of VGG-16's five convolutional blocks are used.
        standardise: see `Standardise`; without it the fully connected layers see the features as they are.
    """

    dimension: int
    image_size: int = 224
    frozen: FrozenBlocks = "none"
    hidden: tuple[int, ...] = (4096, 4096)
    dropout: float = 0.5
    blocks: int = 5
    standardise: bool = False


class FactSuffix(LearningPart):
    """The layers that learn: the unfrozen convolutions, the shared layers and the fork."""

    def __init__(self, convolutions: nn.Sequential, shape: EmbedderShape) -> None:
        side = min(7, shape.image_size // 2**shape.blocks)
        super().__init__(
            convolutions,
            nn.AdaptiveAvgPool2d(side),
            (_CHANNELS, side, side),
            hidden=shape.hidden,
            dropout=shape.dropout,
            standardise=shape.standardise,
        )
        self.fork = nn.ModuleDict({unit: nn.Linear(self.width, shape.dimension) for unit in UNIT_NAMES})

    def forward(self, activations: Tensor) -> Tensor:
        """Activations of the frozen prefix (or images, if nothing is frozen) to vectors [N, 3, D]."""
        shared = self.features(activations)
        return torch.stack([self.fork[unit](shared) for unit in UNIT_NAMES], dim=1)


class FactEmbedder(TwoPartModel):
    """Images [N, 3, H, W], normalised as for ImageNet, to fact vectors [N, 3, D]."""

    def __init__(self, shape: EmbedderShape) -> None:
        super().__init__()
        if shape.image_size < 32:
            raise ModelError(f"VGG-16 needs images of at least 32 pixels; image_size is {shape.image_size}.")
        blocks = list(BLOCK_ENDS)
        if blocks.index(shape.frozen) > shape.blocks or not 4 <= shape.blocks <= 5:
            raise ModelError(
                f"Of {shape.blocks} blocks {shape.frozen} cannot be frozen; use 4 or 5 blocks, freeze those."
            )
        self.shape = shape
        layers = torchvision.models.vgg.make_layers(torchvision.models.vgg.cfgs["D"])
        self.prefix, convolutions = split_layers(layers, BLOCK_ENDS[shape.frozen], BLOCK_ENDS[blocks[shape.blocks]])
        self.suffix: FactSuffix = FactSuffix(convolutions, shape)

    def load_imagenet(self, weights: Path) -> None:
        """Load torchvision-named VGG-16 weights: the convolutions, and the fully connected layers that fit."""
        self.load_convolutional(weights, "VGG-16", ("classifier.0", "classifier.3"))

    def prefix_name(self) -> str:
        """The last frozen block."""
        return self.shape.frozen
