"""The fact embedder: a VGG-16 whose last fully connected layer forks into Subject, Predicate and Object.

The network is held in two parts. `prefix` is the frozen leading convolutions, whose activations can be computed once
and kept; `suffix` is everything that learns, the module that strategies, importance and checkpoints are about.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from factlearn.errors import ModelError
from factlearn.facts import UNIT_NAMES
from factlearn.files import fingerprint
from factlearn.models.vision import torchvision

FrozenBlocks = Literal["none", "conv1", "conv2", "conv3", "conv4", "conv5"]
# Where each convolutional block of torchvision's VGG-16 ends, its pooling included.
_BLOCK_ENDS = {"none": 0, "conv1": 5, "conv2": 10, "conv3": 17, "conv4": 24, "conv5": 31}
_CHANNELS = 512
_STANDARD = 0.1


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


class Standardise(nn.Module):
    """Takes the heavy tail and the common offset out of convolutional features, so that SGD learns fast on them.

    A sample's features become their square root, scaled to length one, minus the mean of such features over the first
    images that were learned, in units of their deviation. The statistics are fixed by `fit` and never learned.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("deviation", torch.zeros(()))

    @property
    def fitted(self) -> bool:
        """Whether the statistics are known."""
        return bool(self.deviation > 0)

    def fit(self, batches: Iterable[Tensor]) -> None:
        """Measure the statistics on features."""
        total, squares, count = torch.zeros_like(self.mean, dtype=torch.float64), 0.0, 0
        for batch in batches:
            root = self._root(batch).double()
            total += root.sum(0)
            squares += float(root.square().sum())
            count += len(batch)
        mean = total / max(count, 1)
        variance = squares / max(count, 1) - float(mean.square().sum())
        if not variance > 0:
            raise ModelError("The images' features do not differ at all; the network cannot learn from them.")
        self.mean.copy_(mean)
        self.deviation.fill_((variance / mean.numel()) ** 0.5)

    def forward(self, features: Tensor) -> Tensor:
        """Keep the shape."""
        return (self._root(features) - self.mean) * (_STANDARD / self.deviation)

    def _root(self, features: Tensor) -> Tensor:
        # The epsilon keeps the root's gradient finite at zero.
        root = (features.clamp_min(0) + 1e-6).sqrt()
        length: Tensor = torch.linalg.vector_norm(root, dim=(1, 2, 3), keepdim=True)
        return root / length


class FactSuffix(nn.Module):
    """The layers that learn: the unfrozen convolutions, the shared layers and the fork."""

    def __init__(self, convolutions: nn.Sequential, shape: EmbedderShape) -> None:
        super().__init__()
        side = min(7, shape.image_size // 2**shape.blocks)
        self.convolutions = convolutions
        self.pool = nn.AdaptiveAvgPool2d(side)
        self.standardise = Standardise((_CHANNELS, side, side)) if shape.standardise else None
        layers: list[nn.Module] = []
        width = _CHANNELS * side * side
        for hidden in shape.hidden:
            layers += [nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(shape.dropout)]
            width = hidden
        self.shared = nn.Sequential(*layers)
        self.fork = nn.ModuleDict({unit: nn.Linear(width, shape.dimension) for unit in UNIT_NAMES})

    def fit(self, inputs: Iterable[Tensor]) -> None:
        """Fix the statistics that the features are standardised by, from the first images to be learned."""
        if self.standardise is None or self.standardise.fitted:
            return
        self.eval()
        with torch.no_grad():
            device = self.standardise.mean.device
            self.standardise.fit(self.pool(self.convolutions(batch.to(device))) for batch in inputs)

    def forward(self, activations: Tensor) -> Tensor:
        """Activations of the frozen prefix (or images, if nothing is frozen) to vectors [N, 3, D]."""
        features = self.pool(self.convolutions(activations))
        if self.standardise is not None:
            features = self.standardise(features)
        shared = self.shared(features.flatten(1))
        return torch.stack([self.fork[unit](shared) for unit in UNIT_NAMES], dim=1)


class FactEmbedder(nn.Module):
    """Images [N, 3, H, W], normalised as for ImageNet, to fact vectors [N, 3, D]."""

    def __init__(self, shape: EmbedderShape) -> None:
        super().__init__()
        if shape.image_size < 32:
            raise ModelError(f"VGG-16 needs images of at least 32 pixels; image_size is {shape.image_size}.")
        blocks = list(_BLOCK_ENDS)
        if blocks.index(shape.frozen) > shape.blocks or not 4 <= shape.blocks <= 5:
            raise ModelError(
                f"Of {shape.blocks} blocks {shape.frozen} cannot be frozen; use 4 or 5 blocks, freeze those."
            )
        self.shape = shape
        layers = list(torchvision.models.vgg.make_layers(torchvision.models.vgg.cfgs["D"]))
        for layer in layers:
            if isinstance(layer, nn.ReLU):
                layer.inplace = False
        frozen, used = _BLOCK_ENDS[shape.frozen], _BLOCK_ENDS[blocks[shape.blocks]]
        self.prefix = nn.Sequential(*layers[:frozen]).requires_grad_(False)
        self.suffix = FactSuffix(nn.Sequential(*layers[frozen:used]), shape)

    def forward(self, images: Tensor) -> Tensor:
        """Embed images."""
        return self.suffix(self.prefix(images))  # type: ignore[no-any-return]

    def train(self, mode: bool = True) -> "FactEmbedder":
        """Set the mode of the learning part; the frozen prefix always stays in eval mode."""
        super().train(mode)
        self.prefix.eval()
        return self

    def load_imagenet(self, weights: Path) -> None:
        """Load torchvision-named VGG-16 weights: the convolutions, and the fully connected layers that fit."""
        try:
            tensors = load_file(weights)
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{weights} is not a readable safetensors file ({error}); fetch it again.") from error
        with torch.no_grad():
            for index, layer in enumerate([*self.prefix, *self.suffix.convolutions]):
                if isinstance(layer, nn.Conv2d):
                    _copy(layer, tensors, f"features.{index}", weights)
            shared = [layer for layer in self.suffix.shared if isinstance(layer, nn.Linear)]
            for name, layer in zip(("classifier.0", "classifier.3"), shared, strict=False):
                if f"{name}.weight" in tensors and tensors[f"{name}.weight"].shape == layer.weight.shape:
                    _copy(layer, tensors, name, weights)

    def prefix_fingerprint(self) -> str:
        """A name for the frozen prefix: its layers and the exact weights."""
        weights = [parameter.detach().cpu().numpy().tobytes() for parameter in self.prefix.parameters()]
        return fingerprint(self.shape.frozen, *weights)

    def fingerprint(self) -> str:
        """A name for the whole model, so that an index knows who wrote its vectors."""
        state = self.state_dict()
        return fingerprint(*(part for name in sorted(state) for part in (name, state[name].cpu().numpy().tobytes())))


def _copy(layer: nn.Conv2d | nn.Linear, tensors: dict[str, Tensor], name: str, weights: Path) -> None:
    for part in ("weight", "bias"):
        key = f"{name}.{part}"
        if key not in tensors or tensors[key].shape != getattr(layer, part).shape:
            raise ModelError(f"{weights} has no {key} that fits VGG-16; give VGG-16 weights with torchvision's names.")
        getattr(layer, part).copy_(tensors[key])
