"""A network in two parts: leading layers that are frozen, whose activations can be kept, and the part that learns."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Self, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm

from factlearn import processes
from factlearn.errors import ModelError
from factlearn.files import fingerprint
from factlearn.models.config import ModelConfig
from factlearn.models.precision import uses_bfloat16
from factlearn.models.pretrained import load_backbone
from factlearn.models.random_features import RandomFeatures
from factlearn.models.side_by_side import SideBySide

_STANDARD = 0.1
Suffix = TypeVar("Suffix", bound="LearningPart")


class Standardise(nn.Module):
    """Takes the heavy tail and the common offset out of convolutional features, so that SGD learns fast on them.

    A sample's features become their square root, signed, scaled to length one, minus the mean of such features over the
    first images that were learned, in units of their deviation. The statistics are fixed by `fit` and never learned.

    Args:
        shape: of a sample's features.
        widths: channels of each of several backbones side by side, whose lengths and deviations are their own.
        root: whether to take the square root and scale to length one.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, shape: tuple[int, int, int], widths: tuple[int, ...] = (), *, root: bool = True) -> None:
        super().__init__()
        self.widths = list(widths) or [shape[0]]
        self.root = root
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("deviation", torch.zeros((shape[0], 1, 1) if len(self.widths) > 1 else ()))

    @property
    def fitted(self) -> bool:
        """Whether the statistics are known."""
        return bool((self.deviation > 0).all())

    def fit(self, batches: Iterable[Tensor]) -> None:
        """Measure the statistics on features, of which every process has a share."""
        total, squares, count = torch.zeros_like(self.mean, dtype=torch.float64), torch.zeros(len(self.widths)), 0
        squares = squares.to(total)
        for batch in batches:
            taken = self._taken(batch).double()
            total += taken.sum(0)
            squares += torch.stack([part.square().sum() for part in taken.split(self.widths, dim=1)])
            count += len(batch)
        total, squares = processes.total(total), processes.total(squares)
        count = int(processes.total(torch.tensor(count)))
        mean = total / max(count, 1)
        parts = mean.split(self.widths)
        variances = squares / max(count, 1) - torch.stack([part.square().sum() for part in parts])
        if not (variances > 0).all():
            raise ModelError("The images' features do not differ at all; the network cannot learn from them.")
        self.mean.copy_(mean)
        deviations = (variances / variances.new_tensor([part.numel() for part in parts])).sqrt()
        if len(self.widths) > 1:
            deviations = deviations.repeat_interleave(torch.tensor(self.widths, device=deviations.device))
        self.deviation.copy_(deviations.view(self.deviation.shape))

    def forward(self, features: Tensor) -> Tensor:
        """Keep the shape."""
        return (self._taken(features) - self.mean) * (_STANDARD / self.deviation)

    def _taken(self, features: Tensor) -> Tensor:
        if not self.root:
            return features
        return torch.cat([_unit_root(part) for part in features.split(self.widths, dim=1)], dim=1)


def _unit_root(features: Tensor) -> Tensor:
    """The signed square root of each sample's features, scaled to length one."""
    # The epsilon keeps the root's gradient finite at zero.
    root = (features.abs() + 1e-6).sqrt()
    root = torch.where(features < 0, -root, root)
    length: Tensor = torch.linalg.vector_norm(root, dim=(1, 2, 3), keepdim=True)
    return root / length


class LearningPart(nn.Module):
    """What learns and all tasks share: the unfrozen convolutions and the fully connected layers.

    BatchNorm layers keep the statistics of pretrained weights while they learn their scale and shift: importance is
    measured under fixed statistics, and no penalty could keep those of old tasks. Without pretrained weights there are
    none to keep, and statistics follow the images as usual.

    Attributes:
        width: length of the features that the output layers see.
    """

    def __init__(
        self,
        convolutions: nn.Sequential,
        pool: nn.Module,
        shape: tuple[int, ...],
        config: ModelConfig,
        widths: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self.convolutions = convolutions
        self.pool = pool
        self.standardise = None
        if (config.standardise or widths) and len(shape) == 3:
            self.standardise = Standardise(shape, widths, root=config.standardise)
        layers: list[nn.Module] = []
        width = below = torch.Size(shape).numel()
        for each in config.hidden:
            layers += [nn.Linear(width, each), nn.ReLU(), nn.Dropout(config.dropout)]
            width = each
        self.shared = nn.Sequential(*layers)
        self.skip = config.skip and bool(layers)
        width += below if self.skip else 0
        self.random = RandomFeatures(width, config.random_features) if config.random_features else None
        self.width = width + config.random_features
        self._fixed_statistics = config.weights is not None

    def train(self, mode: bool = True) -> Self:
        """Set the mode; BatchNorm with pretrained statistics stays in eval mode."""
        super().train(mode)
        if self._fixed_statistics:
            for layer in self.convolutions.modules():
                if isinstance(layer, BatchNorm):
                    layer.eval()
        return self

    def fit(self, inputs: Iterable[Any]) -> None:
        """Fix the statistics that the features are standardised by, from the first images to be learned.

        Args:
            inputs: this process's share of them.
        """
        if self.standardise is None or self.standardise.fitted:
            return
        self.eval()
        with torch.no_grad():
            device = self.standardise.mean.device
            batches = (batch.to(device) for batch in processes.own(inputs))
            self.standardise.fit(self.pool(self.convolutions(batch)) for batch in batches)

    def features(self, activations: Tensor) -> Tensor:
        """Activations of the frozen prefix (or images, if nothing is frozen) to what the output layers see."""
        features = self.pool(self.convolutions(activations))
        if self.standardise is not None:
            features = self.standardise(features)
        below = features.flatten(1)
        shared: Tensor = self.shared(below)
        if self.skip:
            shared = torch.cat([shared, below], dim=1)
        return shared if self.random is None else self.random(shared)  # type: ignore[no-any-return]


class Taps(nn.Sequential):
    """Layers whose features are taken after several blocks, each pooled over the image, side by side.

    Attributes:
        ends: the number of layers up to each tap.
        pooling: how a map becomes one number per channel: `mean`, `max` or both.
    """

    ends: tuple[int, ...]
    pooling: str

    def forward(self, input: Tensor) -> Tensor:
        """Images [N, 3, H, W] to features [N, C, 1, 1]."""
        taken = []
        for number, layer in enumerate(self, 1):
            input = layer(input)
            if number in self.ends:
                whole = input.float()  # sums of bfloat16 would be rounded
                if "mean" in self.pooling:
                    taken.append(whole.mean(dim=(2, 3), keepdim=True))
                if "max" in self.pooling:
                    taken.append(whole.amax(dim=(2, 3), keepdim=True))
        return torch.cat(taken, dim=1)


def _stack(layers: Sequence[nn.Module], config: ModelConfig, *, taps: bool) -> nn.Sequential:
    """Some of a backbone's layers; `taps` where the config's features are taken among them."""
    if not (taps and config.features):
        return nn.Sequential(*layers)
    stack = Taps(*layers)
    stack.ends, stack.pooling = config.feature_ends, config.pooling
    return stack


def _cut(config: ModelConfig) -> tuple[nn.Sequential, nn.Sequential]:
    """One backbone's frozen and learning layers."""
    frozen, used = config.cut
    layers = config.network.layers()
    for layer in (module for each in layers for module in each.modules()):
        if getattr(layer, "inplace", False):
            layer.inplace = False  # type: ignore[assignment]
    whole = frozen == used
    return _stack(layers[:frozen], config, taps=whole), _stack(layers[frozen:used], config, taps=not whole)


_FINGERPRINTS: WeakKeyDictionary[nn.Module, tuple[Any, str, Any]] = WeakKeyDictionary()
"""The fingerprints of frozen layers: hashing VGG-16 takes longer than a small stage. Each with where the weights were
and their versions, which any change raises, and the weights, so that their place is not taken by others."""


def _named_bytes(state: Mapping[str, Tensor]) -> Iterator[str | bytes]:
    """The names and exact values of tensors, in the order of names."""
    return (part for name in sorted(state) for part in (name, state[name].cpu().numpy().tobytes()))


@dataclass(frozen=True)
class FrozenPart:
    """Frozen layers and the config that they follow, of one backbone or of several side by side."""

    config: ModelConfig
    prefix: nn.Module

    @property
    def device(self) -> torch.device:
        """Where the layers are."""
        return next(self.prefix.parameters()).device

    def frozen(self, images: Tensor) -> Tensor:
        """Images through the layers, channels last, in the precision that the config asks for."""
        if not any(True for _ in self.prefix.parameters()):
            return self.prefix(images)  # type: ignore[no-any-return]
        bfloat16 = uses_bfloat16(self.config.precision, images.device.type)
        with torch.autocast(images.device.type, torch.bfloat16, enabled=bfloat16):
            return self.prefix(images.contiguous(memory_format=torch.channels_last)).float()  # type: ignore[no-any-return]

    def prefix_fingerprint(self) -> str:
        """A name for the layers and their exact weights and statistics."""
        config = self.config
        precision = "bfloat16" if uses_bfloat16(config.precision, self.device.type) else "float32"
        state = self.prefix.state_dict()
        seen = (config, precision, *((tensor.data_ptr(), tensor._version) for tensor in state.values()))
        known = _FINGERPRINTS.get(self.prefix)
        if known is None or known[0] != seen:
            unusual = [value for value in (config.pooling, precision) if value not in ("mean", "float32")]
            names = [config.backbone, config.frozen_block, list(config.features or ()), "channels last", *unusual]
            known = _FINGERPRINTS[self.prefix] = seen, fingerprint(*names, *_named_bytes(state)), state
        return known[1]


class TwoPartModel(nn.Module, Generic[Suffix]):
    """A backbone cut in two: a frozen `prefix`, and a `suffix`, which is what learns, is protected and checkpointed.

    Several backbones side by side are all in the prefix.

    Args:
        config: the backbone, where it is cut, and the layers on top.
        make_suffix: makes the part that learns from the unfrozen convolutions, the pooling and the features' shape.
        values: length of a row, where the inputs are rows of numbers and not images.
    """

    prefix: nn.Sequential | SideBySide
    suffix: Suffix

    def __init__(self, config: ModelConfig, make_suffix: Callable[..., Suffix], values: int | None = None) -> None:
        super().__init__()
        self.config = config
        cuts = [_cut(part) for part in config.parts]
        self.prefix, convolutions = cuts[0]
        if len(cuts) > 1:
            self.prefix = SideBySide([prefix for prefix, _ in cuts], [part.network for part in config.parts])
        self.prefix.requires_grad_(False)
        pool: nn.Module = nn.Identity()
        shape: tuple[int, ...] = (values or 3 * config.image_size**2,)
        widths: tuple[int, ...] = ()
        if config.network.blocks:
            with torch.no_grad():
                probe = torch.zeros(1, 3, config.image_size, config.image_size)
                features = convolutions.eval()(self.prefix.eval()(probe))
                if isinstance(self.prefix, SideBySide):
                    widths = tuple(each.shape[1] for each in self.prefix.each(probe))
            channels, side = features.shape[1:3]
            side = min(config.network.side, side)
            pool, shape = nn.AdaptiveAvgPool2d(side), (channels, side, side)
        self.suffix = make_suffix(convolutions, pool, shape, config, widths)

    def forward(self, images: Tensor) -> Any:
        """Images through both parts."""
        return self.suffix(self.frozen(images))

    def frozen(self, images: Tensor) -> Tensor:
        """Images through the frozen layers."""
        return FrozenPart(self.config, self.prefix).frozen(images)

    def frozen_parts(self) -> "list[FrozenPart]":
        """The frozen layers of each backbone by themselves."""
        stacks = self.prefix if isinstance(self.prefix, SideBySide) else [self.prefix]
        return [FrozenPart(part, stack) for part, stack in zip(self.config.parts, stacks, strict=True)]

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
        return FrozenPart(self.config, self.prefix).prefix_fingerprint()

    def fingerprint(self) -> str:
        """A name for the whole model, so that an index knows who wrote its vectors."""
        return fingerprint(*_named_bytes(self.state_dict()))

    def load_pretrained(self, *files: Path) -> None:
        """Load weights under torchvision's names: the convolutions, and those fully connected layers that fit.

        Args:
            files: one for each backbone; without any, the weights stay as they are.
        """
        stacks: list[Iterable[nn.Module]] = [[*self.prefix, *self.suffix.convolutions]]
        if isinstance(self.prefix, SideBySide):
            stacks = [*self.prefix]  # type: ignore[list-item]
        shared = [layer for layer in self.suffix.shared if isinstance(layer, nn.Linear)]
        for weights, part, layers in zip(files, self.config.parts, stacks, strict=False):
            load_backbone(layers, shared, weights, part.network)
