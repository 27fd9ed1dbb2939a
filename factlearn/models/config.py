"""The `model` section of a config: which network, how much of it learns, and what images it sees."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from factlearn.config import Section, located_file
from factlearn.errors import ConfigError
from factlearn.models.backbones import Backbone, find_backbone
from factlearn.models.precision import Precision


def _joined(value: Any) -> Any:
    """Backbones in a list, or joined with spaces, as one name."""
    if isinstance(value, list | tuple):
        value = "+".join(map(str, value))
    return "+".join(part.strip() for part in value.split("+")) if isinstance(value, str) else value


Name = Annotated[str, BeforeValidator(_joined)]
WEIGHTS_SUFFIXES = (".safetensors", ".pth", ".pt")
WeightsName = Annotated[str, located_file(*WEIGHTS_SUFFIXES)]
Weights = WeightsName | tuple[WeightsName, ...] | None


class ModelConfig(Section):
    """The network below the outputs."""

    backbone: Name = "vgg16"
    """A registered backbone (see `factlearn list backbones`) or one of torchvision's networks, such as
    torchvision/resnet18. Several, in a list or joined by +, are used side by side."""
    weights: Weights = "pretrained"
    """`pretrained` (the backbone's own), an asset's name, a .safetensors or .pth file, or null for random weights; for
    several backbones, a list with one of these for each, or `pretrained` for all."""
    image_size: int = Field(224, ge=32, le=1024)
    """Width and height of the network's input, in pixels."""
    fit: Literal["crop", "squash"] = "crop"
    """How images are made square: `crop` crops the longer side, `squash` ignores the aspect ratio."""
    frozen: str = "none"
    """The last frozen convolutional block, such as conv4; `all` freezes every block in use."""
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = (4096, 4096)
    """Widths of the shared fully connected layers."""
    skip: bool = False
    """Also feed the features below the hidden layers to the outputs; what is learned on frozen features is never
    forgotten."""
    random_features: int = Field(0, ge=0, le=20_000)
    """Number of fixed random ReLU features to append to the outputs' input; meant for ridge."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Dropout probability of the hidden units during training, 0 to 1."""
    blocks: int | None = Field(None, ge=1)
    """Number of convolutional blocks to use; all if null. The last one is too coarse for small drawings."""
    features: tuple[str, ...] | None = Field(None, min_length=1)
    """Blocks whose features to use, each pooled over the image; the last block's whole map if null. With several
    backbones, a block that two of them have is written as vgg16.conv5; a backbone not named gives its last block."""
    pooling: Literal["mean", "max", "mean+max"] = "mean"
    """How the `features` of a block are pooled over the image."""
    standardise: bool = False
    """Standardise the convolutional features by the first task's images; training is then much faster."""
    precision: Precision = "float32"
    """Precision of the frozen layers. bfloat16 is 2 to 3 times as fast on CPUs with instructions for it (avx512_bf16,
    amx) and far slower on others; `auto` uses it only where it is fast."""
    keep_activations: bool = True
    """Compute the frozen blocks once per image and cache their activations on disk."""

    @property
    def network(self) -> Backbone:
        """The backbone itself."""
        return find_backbone(self.backbone)

    @property
    def parts(self) -> "tuple[ModelConfig, ...]":
        """One config for each of several backbones side by side; of one backbone, this config alone."""
        names = self.backbone.split("+")
        if len(names) == 1:
            return (self,)
        weights = self.weights if isinstance(self.weights, tuple) else (self.weights,) * len(names)
        features = self._features_by_backbone([find_backbone(name) for name in names])
        common = {name: getattr(self, name) for name in ("image_size", "fit", "pooling", "precision")}
        return tuple(
            ModelConfig(backbone=name, weights=each, features=taken, frozen="all", **common)
            for name, each, taken in zip(names, weights, features, strict=True)
        )

    @property
    def frozen_block(self) -> str:
        """The last block that does not learn, by its own name."""
        names = ["none", *self.network.blocks]
        return names[-1 if self.blocks is None else self.blocks] if self.frozen == "all" else self.frozen

    @property
    def cut(self) -> tuple[int, int]:
        """How many of the backbone's layers are frozen, and how many are used."""
        ends = [0, *self.network.blocks.values()]
        names = ["none", *self.network.blocks]
        return ends[names.index(self.frozen_block)], ends[-1 if self.blocks is None else self.blocks]

    @property
    def feature_ends(self) -> tuple[int, ...]:
        """How many of the backbone's layers each of the `features` is taken after."""
        return tuple(self.network.blocks[name] for name in self.features or ())

    @model_validator(mode="after")
    def _fits_the_backbone(self) -> "ModelConfig":
        try:
            backbone = self.network
        except ConfigError as error:
            raise ValueError(str(error).rstrip(".")) from None
        if self.image_size < backbone.smallest:
            raise ValueError(f"image_size: {backbone.title} needs images of at least {backbone.smallest} pixels")
        if self.weights is None and self.frozen != "none":
            raise ValueError("frozen: there are no weights to freeze; set weights, e.g. to pretrained")
        if "+" in self.backbone:
            self._check_side_by_side()
        else:
            self._check_blocks(backbone)
        return self

    def _check_blocks(self, backbone: Backbone) -> None:
        names = ["none", *backbone.blocks]
        used = len(backbone.blocks) if self.blocks is None else self.blocks
        if used > len(backbone.blocks):
            raise ValueError(f"blocks: {backbone.title} has {len(backbone.blocks)} blocks, not {used}")
        if self.frozen not in (*names[: used + 1], "all"):
            raise ValueError(f"frozen: choose one of {', '.join([*names[: used + 1], 'all'])}, not {self.frozen!r}")
        for name in self.features or ():
            if name not in names[1 : used + 1]:
                raise ValueError(f"features: choose among {', '.join(names[1 : used + 1])}, not {name!r}")
        if self.features and self.frozen not in ("none", "all", names[used]):
            raise ValueError(f"frozen: features of several blocks are frozen all or none; set {names[used]} or none")
        if self.pooling != "mean" and not self.features:
            raise ValueError("pooling: it applies to features; name the blocks, such as features: [conv4, conv5]")
        if isinstance(self.weights, tuple):
            raise ValueError(f"weights: {backbone.title} takes one file or asset, not a list")
        if self.weights is not None and not backbone.blocks:
            raise ValueError(f"weights: a {self.backbone} has no pretrained weights; set weights to null")

    def _check_side_by_side(self) -> None:
        names = self.backbone.split("+")
        for each in map(find_backbone, names):
            if not each.blocks:
                raise ValueError(f"backbone: a {each.name} has no features to put beside others")
        if len(set(names)) < len(names):
            raise ValueError(f"backbone: {self.backbone} names one backbone twice")
        if self.frozen != "all":
            raise ValueError("frozen: backbones side by side cannot learn; set frozen to all, or name one backbone")
        if self.blocks is not None:
            raise ValueError("blocks: of backbones side by side, choose features instead")
        if isinstance(self.weights, str) and self.weights != "pretrained":
            raise ValueError(f"weights: give a list with one entry for each of {', '.join(names)}, or pretrained")
        if isinstance(self.weights, tuple) and len(self.weights) != len(names):
            raise ValueError(f"weights: there are {len(self.weights)} for {len(names)} backbones; give one for each")
        try:
            _ = self.parts
        except ValidationError as error:
            raise ValueError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None

    def _features_by_backbone(self, backbones: list[Backbone]) -> list[tuple[str, ...]]:
        """The features of each backbone; the last block's of one that is not mentioned."""
        found: dict[str, list[str]] = {each.name: [] for each in backbones}
        for name in self.features or ():
            owner, _, block = name.rpartition(".")
            owners = [each.name for each in backbones if block in each.blocks and owner in ("", each.name)]
            if len(owners) > 1:
                raise ValueError(f"features: several backbones have a block {name}; write {owners[0]}.{name}")
            if not owners:
                known = ", ".join(f"{each.name}.{block}" for each in backbones for block in each.blocks)
                raise ValueError(f"features: choose among {known}, not {name!r}")
            found[owners[0]].append(block)
        return [tuple(found[each.name] or list(each.blocks)[-1:]) for each in backbones]


class FactModelConfig(ModelConfig):
    """The network that embeds facts."""

    readout: Literal["distance", "posterior"] = "distance"
    """How features become fact vectors: `distance` trains the outputs to predict the facts' word vectors (the paper),
    `posterior` takes the mean of the known facts' word vectors, weighted by their posterior; far better on photos."""


class ClassifierConfig(ModelConfig):
    """The network below the heads of a classifier."""

    backbone: Name = "alexnet"
    weights: Weights = None
    heads: Literal["own", "shared"] = "own"
    """`own`: one head per task; `shared`: one head for all tasks, which then have the same classes, as in permuted
    digits."""


def weights_files(config: ModelConfig) -> list[Path]:
    """The file of pretrained weights of each backbone, fetched if it is an asset; none to start at random."""
    return [_weights_file(part) for part in config.parts if part.weights is not None]


def _weights_file(config: ModelConfig) -> Path:
    name = config.network.weights if config.weights == "pretrained" else str(config.weights)
    if name is None:
        raise ConfigError(f"model.weights: there are no pretrained weights of {config.network.title}; name a file.")
    if "/" in name or Path(name).suffix in WEIGHTS_SUFFIXES:
        path = Path(name).expanduser()
        if not path.is_file():
            raise ConfigError(f"model.weights: the file {path} does not exist; give a file or an asset's name.")
        return path
    from factlearn.assets import fetch

    return fetch(name)
