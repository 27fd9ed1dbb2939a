"""A network in two parts: leading layers that are frozen, whose activations can be kept, and the part that learns."""

from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from factlearn.errors import ModelError
from factlearn.files import fingerprint

_STANDARD = 0.1


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
        self,
        convolutions: nn.Sequential,
        pool: nn.Module,
        shape: tuple[int, ...],
        *,
        hidden: tuple[int, ...],
        dropout: float,
        standardise: bool,
    ) -> None:
        super().__init__()
        self.convolutions = convolutions
        self.pool = pool
        self.standardise = Standardise(shape) if standardise and len(shape) == 3 else None
        layers: list[nn.Module] = []
        width = torch.Size(shape).numel()
        for each in hidden:
            layers += [nn.Linear(width, each), nn.ReLU(), nn.Dropout(dropout)]
            width = each
        self.shared = nn.Sequential(*layers)
        self.width = width

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
        return self.shared(features.flatten(1))  # type: ignore[no-any-return]


class TwoPartModel(nn.Module):
    """A frozen `prefix` and a `suffix`, which is what strategies, importance and checkpoints are about."""

    prefix: nn.Sequential
    suffix: LearningPart

    def forward(self, images: Tensor) -> Tensor:
        """Images through both parts."""
        return self.suffix(self.prefix(images))  # type: ignore[no-any-return]

    def train(self, mode: bool = True) -> "TwoPartModel":
        """Set the mode of the learning part; the frozen prefix always stays in eval mode."""
        super().train(mode)
        self.prefix.eval()
        return self

    def prefix_name(self) -> str:
        """Which layers the prefix has."""
        raise NotImplementedError

    def prefix_fingerprint(self) -> str:
        """A name for the frozen prefix: its layers and the exact weights."""
        weights = [parameter.detach().cpu().numpy().tobytes() for parameter in self.prefix.parameters()]
        return fingerprint(self.prefix_name(), *weights)

    def fingerprint(self) -> str:
        """A name for the whole model, so that an index knows who wrote its vectors."""
        state = self.state_dict()
        return fingerprint(*(part for name in sorted(state) for part in (name, state[name].cpu().numpy().tobytes())))

    def load_convolutional(self, weights: Path, title: str, classifier: tuple[str, ...]) -> None:
        """Load weights under torchvision's names: the convolutions, and those fully connected layers that fit.

        Args:
            weights: a safetensors file.
            title: of the architecture, for errors.
            classifier: names of the fully connected layers, in the order of the shared ones here.
        """
        try:
            tensors = load_file(weights)
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{weights} is not a readable safetensors file ({error}); fetch it again.") from error
        with torch.no_grad():
            for index, layer in enumerate([*self.prefix, *self.suffix.convolutions]):
                if isinstance(layer, nn.Conv2d):
                    _copy(layer, tensors, f"features.{index}", weights, title)
            shared = [layer for layer in self.suffix.shared if isinstance(layer, nn.Linear)]
            for name, layer in zip(classifier, shared, strict=False):
                if f"{name}.weight" in tensors and tensors[f"{name}.weight"].shape == layer.weight.shape:
                    _copy(layer, tensors, name, weights, title)


def split_layers(layers: Iterable[nn.Module], frozen: int, used: int) -> tuple[nn.Sequential, nn.Sequential]:
    """The first `frozen` layers, which do not learn, and those up to `used`."""
    kept = list(layers)
    for layer in kept:
        if isinstance(layer, nn.ReLU):
            layer.inplace = False
    return nn.Sequential(*kept[:frozen]).requires_grad_(False), nn.Sequential(*kept[frozen:used])


def _copy(layer: nn.Conv2d | nn.Linear, tensors: dict[str, Tensor], name: str, weights: Path, title: str) -> None:
    for part in ("weight", "bias"):
        key = f"{name}.{part}"
        if key not in tensors or tensors[key].shape != getattr(layer, part).shape:
            raise ModelError(f"{weights} has no {key} that fits {title}; give weights with torchvision's names.")
        getattr(layer, part).copy_(tensors[key])
