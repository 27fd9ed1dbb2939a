"""Backbones: pretrained convolutional networks that can be cut after any block, one dataclass each.

To add one, make a `Backbone` and `register_backbone` it, here or in a package of your own through the entry-point group
`factlearn.backbones`. Nothing heavy is imported before its layers are built.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from factlearn.config import Registry

if TYPE_CHECKING:
    from torch import nn

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Backbone:
    """A stack of layers under the part that learns.

    Attributes:
        name: in configs.
        title: for people.
        summary: one line, for docs and `--help`.
        layers: makes the layers with fresh weights, in order.
        blocks: the name of each block, and the number of layers up to its end.
        channels: of the features after each block.
        prefixes: what the parameters of each layer start with in a file of weights; `features.N` if not given.
        classifier: torchvision's names of the fully connected layers, in the order of the shared ones here.
        side: the largest side of the feature map that the fully connected layers see; larger maps are pooled.
        smallest: the smallest image it can take, in pixels.
        weights: the asset with its pretrained weights; None if there are none.
        mean, std: of the pixel values, by which images are normalised.
    """

    name: str
    title: str
    summary: str
    layers: "Callable[[], list[nn.Module]]"
    blocks: Mapping[str, int]
    channels: tuple[int, ...] = ()
    prefixes: tuple[str, ...] = ()
    classifier: tuple[str, ...] = ()
    side: int = 7
    smallest: int = 32
    weights: str | None = None
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD

    def prefix(self, layer: int) -> str:
        """What the parameters of a layer start with in a file of weights."""
        return self.prefixes[layer] if self.prefixes else f"features.{layer}"

    def described(self) -> dict[str, Any]:
        """Where it can be cut, how many channels each block has, what images it takes, and its weights."""
        from factlearn.assets import ASSETS

        channels = self.channels or (None,) * len(self.blocks)
        asset = ASSETS.get(self.weights or "")
        return {
            "title": self.title,
            "summary": self.summary,
            "blocks": dict(zip(self.blocks, channels, strict=True)),
            "smallest_image": self.smallest,
            "mean": list(self.mean),
            "std": list(self.std),
            "weights": self.weights,
            "licence": asset.licence if asset else None,
        }

    @property
    def origin(self) -> object:
        """What tells two backbones of one name apart."""
        return self.layers


BACKBONES: Registry[Backbone] = Registry("backbone", "factlearn.backbones", ("factlearn.models.backbones",))


def register_backbone(backbone: Backbone) -> Backbone:
    """Make a backbone available to configs under its name."""
    return BACKBONES.register(backbone.name, backbone)


def find_backbone(name: str) -> Backbone:
    """The backbone that a config names: one registered, one of torchvision's, or several joined by `+`, as one."""
    if "+" in name:
        return _side_by_side([find_backbone(each) for each in name.split("+")])
    if name.startswith("torchvision/"):
        from factlearn.models.torchvision_networks import torchvision_backbone

        return torchvision_backbone(name.removeprefix("torchvision/"))
    return BACKBONES.find(name)


def _side_by_side(backbones: "list[Backbone]") -> Backbone:
    """Backbones that see the same image; they get plain pixel values, and each normalises them in its own way."""
    return Backbone(
        name="+".join(each.name for each in backbones),
        title=" + ".join(each.title for each in backbones),
        summary="features side by side",
        layers=list,
        blocks={"all": 1},
        smallest=max(each.smallest for each in backbones),
        mean=(0.0,) * 3,
        std=(1 / 255,) * 3,
    )


def _vgg16() -> "list[nn.Module]":
    from factlearn.models.vision import torchvision

    return list(torchvision.models.vgg.make_layers(torchvision.models.vgg.cfgs["D"]))


def _alexnet() -> "list[nn.Module]":
    """AlexNet's convolutions; its classifier is never built."""
    import torch
    from torch import nn

    from factlearn.models.vision import torchvision

    with torch.device("meta"):
        layers = torchvision.models.alexnet(weights=None).features
    layers.to_empty(device="cpu")
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            layer.reset_parameters()
    return list(layers)


def _efficientnet_lite0() -> "list[nn.Module]":
    from factlearn.models.efficientnet import efficientnet_lite0

    return efficientnet_lite0()


def _resnet50() -> "list[nn.Module]":
    """torchvision's ResNet-50 with Keras's strides, which lie in the first convolution of a block, and its epsilon."""
    from torch import nn

    from factlearn.models.vision import torchvision

    network = torchvision.models.resnet50(weights=None)
    for stage in (network.layer2, network.layer3, network.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.eps = 1e-3
    names = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4")
    return [getattr(network, name) for name in names]


register_backbone(
    Backbone(
        name="vgg16",
        title="VGG-16",
        summary="the paper's network for facts",
        layers=_vgg16,
        blocks={"conv1": 5, "conv2": 10, "conv3": 17, "conv4": 24, "conv5": 31},
        channels=(64, 128, 256, 512, 512),
        classifier=("classifier.0", "classifier.3"),
        weights="vgg16-imagenet-conv",
    )
)
register_backbone(
    Backbone(
        name="alexnet",
        title="AlexNet",
        summary="the paper's network for objects",
        layers=_alexnet,
        blocks={"conv1": 3, "conv2": 6, "conv3": 8, "conv4": 10, "conv5": 13},
        channels=(64, 192, 384, 256, 256),
        classifier=("classifier.1", "classifier.4"),
        side=6,
        smallest=64,
        weights="alexnet-imagenet-conv",
    )
)
register_backbone(
    Backbone(
        name="efficientnet-lite0",
        title="EfficientNet-Lite0",
        summary="small and fast, the strongest of these on photos",
        layers=_efficientnet_lite0,
        blocks={"stem": 1, **{f"stage{n}": n + 1 for n in range(1, 8)}, "head": 9},
        channels=(32, 16, 24, 40, 80, 112, 192, 320, 1280),
        weights="efficientnet-lite0-imagenet",
        mean=(127 / 255,) * 3,
        std=(128 / 255,) * 3,
    )
)
register_backbone(
    Backbone(
        name="resnet50",
        title="ResNet-50",
        summary="residual network of 50 layers, with Keras's weights",
        layers=_resnet50,
        blocks={"stem": 4, "layer1": 5, "layer2": 6, "layer3": 7, "layer4": 8},
        channels=(64, 256, 512, 1024, 2048),
        prefixes=("conv1", "bn1", "", "", "layer1", "layer2", "layer3", "layer4"),
        weights="resnet50-imagenet",
        # Keras's "caffe" convention: no scaling. The weights' converter takes care of the channels' order (BGR).
        mean=(123.68 / 255, 116.779 / 255, 103.939 / 255),
        std=(1 / 255,) * 3,
    )
)
register_backbone(
    Backbone(
        name="perceptron",
        title="Perceptron",
        summary="fully connected layers only, for numeric rows and small images",
        layers=list,
        blocks={},
        smallest=1,
    )
)
