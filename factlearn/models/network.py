"""A network in two parts: leading layers that are frozen, whose activations can be kept, and the part that learns."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from factlearn.errors import ModelError
from factlearn.files import fingerprint
from factlearn.models.config import ModelConfig
from factlearn.models.random_features import RandomFeatures

_STANDARD = 0.1
Suffix = TypeVar("Suffix", bound="LearningPart")


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


class LearningPart(nn.Module):
    """What learns and all tasks share: the unfrozen convolutions and the fully connected layers.

    Attributes:
        width: length of the features that the output layers see.
    """

    def __init__(
        self, convolutions: nn.Sequential, pool: nn.Module, shape: tuple[int, ...], config: ModelConfig
    ) -> None:
        super().__init__()
        self.convolutions = convolutions
        self.pool = pool
        self.standardise = Standardise(shape) if config.standardise and len(shape) == 3 else None
        layers: list[nn.Module] = []
        width = torch.Size(shape).numel()
        for each in config.hidden:
            layers += [nn.Linear(width, each), nn.ReLU(), nn.Dropout(config.dropout)]
            width = each
        self.shared = nn.Sequential(*layers)
        self.random = RandomFeatures(width, config.random_features) if config.random_features else None
        self.width = width + config.random_features

    def fit(self, inputs: Iterable[Tensor]) -> None:
        """Fix the statistics that the features are standardised by, from the first images to be learned."""
        if self.standardise is None or self.standardise.fitted:
            return
        self.eval()
        with torch.no_grad():
            device = self.standardise.mean.device
            self.standardise.fit(self.pool(self.convolutions(batch.to(device))) for batch in inputs)

    def features(self, activations: Tensor) -> Tensor:
        """Activations of the frozen prefix (or images, if nothing is frozen) to what the output layers see."""
        features = self.pool(self.convolutions(activations))
        if self.standardise is not None:
            features = self.standardise(features)
        shared: Tensor = self.shared(features.flatten(1))
        return shared if self.random is None else self.random(shared)  # type: ignore[no-any-return]


class Taps(nn.Sequential):
    """Layers whose features are taken after several blocks, each averaged over the image, side by side.

    Attributes:
        ends: the number of layers up to each tap.
    """

    ends: tuple[int, ...]

    def forward(self, input: Tensor) -> Tensor:
        """Images [N, 3, H, W] to features [N, C, 1, 1]."""
        taken = []
        for number, layer in enumerate(self, 1):
            input = layer(input)
            if number in self.ends:
                taken.append(input.mean(dim=(2, 3), keepdim=True))
        return torch.cat(taken, dim=1)


class TwoPartModel(nn.Module, Generic[Suffix]):
    """A backbone cut in two: a frozen `prefix`, and a `suffix`, which is what learns, is protected and checkpointed.

    Args:
        config: the backbone, where it is cut, and the layers on top.
        make_suffix: makes the part that learns from the unfrozen convolutions, the pooling and the features' shape.
        values: length of a row, where the inputs are rows of numbers and not images.
    """

    prefix: nn.Sequential
    suffix: Suffix

    def __init__(self, config: ModelConfig, make_suffix: Callable[..., Suffix], values: int | None = None) -> None:
        super().__init__()
        self.config = config
        frozen, used = config.cut
        layers = config.network.layers()
        for layer in (module for each in layers for module in each.modules()):
            if isinstance(layer, nn.ReLU | nn.ReLU6):
                layer.inplace = False
        tapped = Taps if config.features else nn.Sequential
        self.prefix = (tapped if frozen == used else nn.Sequential)(*layers[:frozen]).requires_grad_(False)
        convolutions = (nn.Sequential if frozen == used else tapped)(*layers[frozen:used])
        for part in (self.prefix, convolutions):
            if isinstance(part, Taps):
                part.ends = config.feature_ends
        pool: nn.Module = nn.Identity()
        shape: tuple[int, ...] = (values or 3 * config.image_size**2,)
        if used:
            size = config.image_size
            with torch.no_grad():
                probe = convolutions.eval()(self.prefix.eval()(torch.zeros(1, 3, size, size)))
            channels, side = probe.shape[1:3]
            side = min(config.network.side, side)
            pool, shape = nn.AdaptiveAvgPool2d(side), (channels, side, side)
        self.suffix = make_suffix(convolutions, pool, shape, config)

    def forward(self, images: Tensor) -> Any:
        """Images through both parts."""
        return self.suffix(self.prefix(images))

    def train(self, mode: bool = True) -> "TwoPartModel[Suffix]":
        """Set the mode of the learning part; the frozen prefix always stays in eval mode."""
        super().train(mode)
        self.prefix.eval()
        return self

    @property
    def device(self) -> torch.device:
        """Where the learning part is."""
        return next(self.suffix.parameters()).device

    def prefix_fingerprint(self) -> str:
        """A name for the frozen prefix: its layers, and their exact weights and statistics."""
        state = self.prefix.state_dict()
        tensors = (part for name in sorted(state) for part in (name, state[name].cpu().numpy().tobytes()))
        return fingerprint(self.config.backbone, self.config.frozen, list(self.config.features or ()), *tensors)

    def fingerprint(self) -> str:
        """A name for the whole model, so that an index knows who wrote its vectors."""
        state = self.state_dict()
        return fingerprint(*(part for name in sorted(state) for part in (name, state[name].cpu().numpy().tobytes())))

    def load_pretrained(self, weights: Path) -> None:
        """Load weights under torchvision's names: the convolutions, and those fully connected layers that fit."""
        network = self.config.network
        try:
            tensors = load_file(weights)
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{weights} is not a readable safetensors file ({error}); fetch it again.") from error
        for index, layer in enumerate([*self.prefix, *self.suffix.convolutions]):
            _load(layer, tensors, network.prefix(index), f"{weights} has no %s that fits {network.title}")
        shared = [layer for layer in self.suffix.shared if isinstance(layer, nn.Linear)]
        for name, linear in zip(network.classifier, shared, strict=False):
            if f"{name}.weight" in tensors and tensors[f"{name}.weight"].shape == linear.weight.shape:
                _load(linear, tensors, name, f"{weights} has no %s that fits {network.title}")


def _load(layer: nn.Module, tensors: dict[str, Tensor], prefix: str, problem: str) -> None:
    """Take a layer's parameters and statistics out of named tensors."""
    state = layer.state_dict()
    for name in (name for name in state if not name.endswith("num_batches_tracked")):
        found = tensors.get(f"{prefix}.{name}")
        if found is None or found.shape != state[name].shape:
            raise ModelError(f"{problem % f'{prefix}.{name}'}; give weights with torchvision's names.")
        state[name] = found
    layer.load_state_dict(state)
