"""Any of torchvision's convolutional classification networks as a backbone, by name: `torchvision/resnet18`.

A network is taken apart into the chain of layers before its pooling and its classifier: the children of the network,
and of its `features`, in order. Whether they are a chain is checked by running the network on torch's meta device,
which computes shapes alone: each layer must be fed exactly what the layer before it gave. Blocks, where the chain can
be cut, are the layers made of others (`layer1`, `denseblock2`); plain layers between them form a block together, such
as the stem, and end at each pooling where a network has nothing but plain layers.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from factlearn.errors import ConfigError
from factlearn.models.backbones import IMAGENET_MEAN, IMAGENET_STD, Backbone

if TYPE_CHECKING:
    from torch import Tensor, nn

PREFIX = "torchvision/"
_CONTAINERS = ("features", "layers", "trunk_output")
_SIZES = (32, 64, 96, 128, 224)
# These convert images from ImageNet's normalisation to this one before their first layer, when they are pretrained.
_RESCALED = {"googlenet": 0.5, "inception_v3": 0.5}


@dataclass(frozen=True)
class _Layer:
    """One layer of the chain; its path is its name in files of weights, empty if it has no parameters."""

    path: str
    module: "nn.Module"


def torchvision_names() -> list[str]:
    """The classification networks there are, transformers among them."""
    from factlearn.models.vision import torchvision

    return list(torchvision.models.list_models(module=torchvision.models))


@cache
def torchvision_backbone(name: str) -> Backbone:
    """The backbone of a torchvision network, its blocks found by taking it apart.

    Raises:
        ConfigError: if torchvision has no such network, or it is not a chain of convolutional layers.
    """
    known = torchvision_names()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {' or '.join(PREFIX + each for each in close)}?" if close else "see its documentation."
        raise ConfigError(f"torchvision has no classification network {name!r}; {hint}")
    network = _shapes_only(name)
    layers = list(_chain(network))
    smallest, shapes = _traced(network, [layer.module for layer in layers], name)
    blocks = _blocks(layers)
    mean, std = _normalisation(name)
    return Backbone(
        name=f"{PREFIX}{name}",
        title=f"torchvision's {name}",
        summary="with your own weights",
        layers=partial(_layers, name),
        blocks=blocks,
        channels=tuple(shapes[end - 1] for end in blocks.values()),
        prefixes=tuple(layer.path for layer in layers),
        smallest=smallest,
        mean=mean,
        std=std,
    )


def _shapes_only(name: str) -> "nn.Module":
    """The network on torch's meta device."""
    import torch

    if name.startswith("regnet"):  # their widths are computed with tensors, which need values
        return _built(name).to("meta")
    with torch.device("meta"):
        return _built(name)


def _layers(name: str) -> "list[nn.Module]":
    return [layer.module for layer in _chain(_built(name))]


def _built(name: str) -> "nn.Module":
    from factlearn.models.vision import torchvision

    extra = {"aux_logits": False, "init_weights": False} if name in _RESCALED else {}
    network: nn.Module = torchvision.models.get_model(name, weights=None, **extra)
    return network


def _normalisation(name: str) -> tuple[Any, Any]:
    from factlearn.models.vision import torchvision

    if name in _RESCALED:
        return (_RESCALED[name],) * 3, (_RESCALED[name],) * 3
    transforms = torchvision.models.get_model_weights(name).DEFAULT.transforms()
    return tuple(getattr(transforms, "mean", IMAGENET_MEAN)), tuple(getattr(transforms, "std", IMAGENET_STD))


def _chain(network: "nn.Module") -> Iterator[_Layer]:
    """The layers up to the pooling and the classifier."""
    from torch import nn

    ends = (nn.AdaptiveAvgPool2d, nn.AvgPool2d, nn.Linear, nn.Dropout, nn.Flatten)
    for name, child in network.named_children():
        if isinstance(child, ends) or name in ("classifier", "head", "heads", "fc"):
            break
        inner = child.named_children() if name in _CONTAINERS else [("", child)]
        for place, each in inner:
            if isinstance(each, ends):
                return
            yield _Layer(f"{name}.{place}" if place else name, each)
    if type(network).__name__ == "DenseNet":  # its last activation is a function, not a layer
        yield _Layer("", nn.ReLU())


def _blocks(layers: list[_Layer]) -> dict[str, int]:
    """Where the chain can be cut: the name of each block, and the number of layers up to its end."""
    from torch import nn

    plain = [not any(layer.module.children()) for layer in layers]
    blocks: dict[str, int] = {}
    run: str | None = None  # the block of plain layers under way
    for place, layer in enumerate(layers, 1):
        if not plain[place - 1]:
            blocks[_short(layer.path)] = place
            run = None
        elif not any(True for _ in layer.module.parameters()) and blocks:
            blocks[run or list(blocks)[-1]] = place  # belongs to what precedes it
            if all(plain) and isinstance(layer.module, nn.MaxPool2d):
                run = None
        else:
            if run is None:
                run = f"conv{len(blocks) + 1}" if all(plain) else _short(layer.path) if blocks else "stem"
            blocks[run] = place
    return blocks


def _short(path: str) -> str:
    """A layer's path without what contains it, unless its own name is a mere number."""
    last = path.rpartition(".")[2]
    return path.replace(".", "") if last.isdigit() else last


def _traced(network: "nn.Module", layers: "list[nn.Module]", name: str) -> tuple[int, list[int]]:
    """The smallest image the network takes, and the channels after each layer, from a run that computes shapes only."""
    import torch

    refusal = ConfigError(
        f"{PREFIX}{name} is not a chain of convolutional layers, so it cannot be cut; "
        f"choose another network, such as {PREFIX}resnet18 or {PREFIX}convnext_tiny."
    )
    calls: list[tuple[Tensor, Tensor]] = []
    own = set(network.modules())
    inside = [layer for layer in layers if layer in own]  # all but the activation that `_chain` may add
    hooks = [layer.register_forward_hook(lambda _, given, out: calls.append((given[0], out))) for layer in inside]
    try:
        for size in _SIZES:
            calls.clear()
            images = torch.zeros(1, 3, size, size, device="meta")
            try:
                network.eval()(images)
            except (RuntimeError, ValueError, AssertionError):  # too small for its poolings
                continue
            fed = [images, *(out for _, out in calls)]
            chained = len(calls) == len(inside) > 0 and all(
                given is before for before, (given, _) in zip(fed, calls, strict=False)
            )
            if not chained or any(out.dim() != 4 or out.shape[2] != out.shape[3] for _, out in calls):
                raise refusal
            shapes = [out.shape[1] for _, out in calls]
            return size, shapes + shapes[-1:] * (len(layers) - len(inside))
    finally:
        for hook in hooks:
            hook.remove()
    raise refusal
