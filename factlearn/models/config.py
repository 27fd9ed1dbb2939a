"""The `model` section of a config: which network, how much of it learns, and what images it sees."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from factlearn.config import Section, located_file
from factlearn.errors import ConfigError
from factlearn.models.backbones import BACKBONES, Backbone


class ModelConfig(Section):
    """The network under the outputs."""

    backbone: str = "vgg16"
    """A registered backbone, see `factlearn list backbones`."""
    weights: Annotated[str | None, located_file(".safetensors")] = "pretrained"
    """`pretrained` (the backbone's own), an asset's name, a safetensors file, or null to start from random weights."""
    image_size: int = Field(224, ge=32, le=1024)
    fit: Literal["crop", "squash"] = "crop"
    frozen: str = "none"
    """The last convolutional block that does not learn, such as conv4."""
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = (4096, 4096)
    """Widths of the shared fully connected layers."""
    random_features: int = Field(0, ge=0, le=20_000)
    """Number of random ReLU features, which never learn, appended to what the outputs see; made for ridge."""
    dropout: float = Field(0.5, ge=0, lt=1)
    blocks: int | None = Field(None, ge=1)
    """How many convolutional blocks are used; all if not given. The last one loses the detail of small drawings."""
    features: tuple[str, ...] | None = Field(None, min_length=1)
    """Blocks whose features are used, each averaged over the image; the last block's whole map if not given."""
    standardise: bool = False
    """Standardise the convolutional features by the first task's images; training is then much faster."""
    keep_activations: bool = True
    """Compute the frozen blocks once per image and keep their activations on disk."""

    @property
    def network(self) -> Backbone:
        """The backbone itself."""
        return BACKBONES.find(self.backbone)

    @property
    def cut(self) -> tuple[int, int]:
        """How many of the backbone's layers are frozen, and how many are used."""
        ends = [0, *self.network.blocks.values()]
        names = ["none", *self.network.blocks]
        return ends[names.index(self.frozen)], ends[-1 if self.blocks is None else self.blocks]

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
        names = ["none", *backbone.blocks]
        used = len(backbone.blocks) if self.blocks is None else self.blocks
        if used > len(backbone.blocks):
            raise ValueError(f"blocks: {backbone.title} has {len(backbone.blocks)} blocks, not {used}")
        if self.frozen not in names[: used + 1]:
            raise ValueError(f"frozen: choose one of {', '.join(names[: used + 1])}, not {self.frozen!r}")
        for name in self.features or ():
            if name not in names[1 : used + 1]:
                raise ValueError(f"features: choose among {', '.join(names[1 : used + 1])}, not {name!r}")
        if self.features and self.frozen not in ("none", names[used]):
            raise ValueError(f"frozen: features of several blocks are frozen all or none; set {names[used]} or none")
        if self.image_size < backbone.smallest:
            raise ValueError(f"image_size: {backbone.title} needs images of at least {backbone.smallest} pixels")
        if self.weights is None and self.frozen != "none":
            raise ValueError("frozen: there are no weights to freeze; set weights, e.g. to pretrained")
        if self.weights is not None and not backbone.blocks:
            raise ValueError(f"weights: a {self.backbone} has no pretrained weights; set weights to null")
        return self


class FactModelConfig(ModelConfig):
    """The network that embeds facts."""

    readout: Literal["distance", "posterior"] = "distance"
    """How features become fact vectors: by outputs trained to land on the facts' word vectors (the paper), or as the
    mean of the known facts' word vectors under their posterior, which is far better on photos."""


class ClassifierConfig(ModelConfig):
    """The network under the heads of a classifier."""

    backbone: str = "alexnet"
    weights: Annotated[str | None, located_file(".safetensors")] = None
    heads: Literal["own", "shared"] = "own"
    """One head per task, or one for all tasks, which then have the same classes, as permuted digits do."""


def weights_file(config: ModelConfig) -> Path | None:
    """The file of pretrained weights that a config names, fetched if it is an asset; None to start at random."""
    if config.weights is None:
        return None
    name = config.network.weights if config.weights == "pretrained" else config.weights
    if name is None:
        raise ConfigError(f"model.weights: there are no pretrained weights of {config.network.title}; name a file.")
    if "/" in name or name.endswith(".safetensors"):
        path = Path(name).expanduser()
        if not path.is_file():
            raise ConfigError(f"model.weights: the file {path} does not exist; give a file or an asset's name.")
        return path
    from factlearn.assets import fetch

    return fetch(name)
