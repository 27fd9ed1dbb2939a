"""The fact embedder: a VGG-16 whose last fully connected layer forks into Subject, Predicate and Object.

The network is held in two parts. `prefix` is the frozen leading convolutions, whose activations can be computed once and
kept; `suffix` is everything that learns, the module that strategies, importance and checkpoints are about.
"""

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


@dataclass(frozen=True)
class EmbedderShape:
    """What fixes the network's layers.

    Attributes:
        dimension: length of a unit's vector in the language space.
        image_size: side of the square input in pixels; at least 32, a multiple of 32 loses no border.
        frozen: the last convolutional block that does not learn.
        hidden: widths of the shared fully connected layers.
        dropout: after each of them.
        root: feed the fully connected layers the normalised square root of the last convolution's activations, which
            tames their heavy tail.
    """

    dimension: int
    image_size: int = 224
    frozen: FrozenBlocks = "none"
    hidden: tuple[int, ...] = (4096, 4096)
    dropout: float = 0.5
    root: bool = False


class RootNormalise(nn.Module):
    """The square root of non-negative activations, scaled to a fixed length a sample."""

    def forward(self, activations: Tensor) -> Tensor:
        """Keep the shape; the epsilon keeps the root's gradient finite at zero."""
        flat = activations.flatten(1).clamp_min(0)
        root = (flat + 1e-6).sqrt() - 1e-3
        scale = flat.shape[1] ** 0.5
        return (nn.functional.normalize(root, dim=1) * scale).view_as(activations)


class FactSuffix(nn.Module):
    """The layers that learn: the unfrozen convolutions, the shared layers and the fork."""

    def __init__(self, convolutions: nn.Sequential, shape: EmbedderShape) -> None:
        super().__init__()
        side = min(7, max(1, shape.image_size // 32))
        self.convolutions = convolutions
        self.root = RootNormalise() if shape.root else nn.Identity()
        self.pool = nn.AdaptiveAvgPool2d(side)
        layers: list[nn.Module] = []
        width = _CHANNELS * side * side
        for hidden in shape.hidden:
            layers += [nn.Linear(width, hidden), nn.ReLU(inplace=True), nn.Dropout(shape.dropout)]
            width = hidden
        self.shared = nn.Sequential(*layers)
        self.fork = nn.ModuleDict({unit: nn.Linear(width, shape.dimension) for unit in UNIT_NAMES})

    def forward(self, activations: Tensor) -> Tensor:
        """Activations of the frozen prefix (or images, if nothing is frozen) to vectors [N, 3, D]."""
        features = self.pool(self.root(self.convolutions(activations)))
        shared = self.shared(features.flatten(1))
        return torch.stack([self.fork[unit](shared) for unit in UNIT_NAMES], dim=1)


class FactEmbedder(nn.Module):
    """Images [N, 3, H, W], normalised as for ImageNet, to fact vectors [N, 3, D]."""

    def __init__(self, shape: EmbedderShape) -> None:
        super().__init__()
        if shape.image_size < 32:
            raise ModelError(f"VGG-16 needs images of at least 32 pixels; image_size is {shape.image_size}.")
        self.shape = shape
        layers = list(torchvision.models.vgg16(weights=None).features)
        for layer in layers:
            if isinstance(layer, nn.ReLU):
                layer.inplace = False
        end = _BLOCK_ENDS[shape.frozen]
        self.prefix = nn.Sequential(*layers[:end]).requires_grad_(False)
        self.suffix = FactSuffix(nn.Sequential(*layers[end:]), shape)
        self._initialise()

    def _initialise(self) -> None:
        for module in self.suffix.shared:
            if isinstance(module, nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)
        for fork in self.suffix.fork.values():
            assert isinstance(fork, nn.Linear)
            nn.init.normal_(fork.weight, std=0.01)
            nn.init.zeros_(fork.bias)

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
