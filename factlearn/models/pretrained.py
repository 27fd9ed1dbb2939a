"""Loading pretrained weights, from safetensors or torch's own files, into a backbone's layers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from factlearn.errors import ModelError
from factlearn.models.backbones import Backbone

_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|conv))\.(\d)\.")


def load_backbone(layers: Iterable[nn.Module], shared: Sequence[nn.Linear], file: Path, backbone: Backbone) -> None:
    """Load a backbone's leading layers, and those of the fully connected ones that fit.

    Raises:
        ModelError: if the file cannot be read, or lacks a parameter of a layer.
    """
    tensors = read_weights(file)
    problem = f"{file} has no %s that fits {backbone.title}"
    for index, layer in enumerate(layers):
        _load(layer, tensors, backbone.prefix(index), problem)
    for name, linear in zip(backbone.classifier, shared, strict=False):
        if f"{name}.weight" in tensors and tensors[f"{name}.weight"].shape == linear.weight.shape:
            _load(linear, tensors, name, problem)


def read_weights(file: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, or of a .pth file that holds nothing but tensors, by name."""
    if file.suffix in (".pth", ".pt"):
        from factlearn.assets.weights import read_torch

        arrays = read_torch(file, str(file))
        # torchvision's own files of DenseNets carry names of an older release.
        return {_DENSENET.sub(r"\1\2.", name): torch.from_numpy(array) for name, array in arrays.items()}
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{file} is not a readable safetensors file ({error}); fetch it again.") from error


def _load(layer: nn.Module, tensors: Mapping[str, Tensor], prefix: str, problem: str) -> None:
    """Take a layer's parameters and statistics out of named tensors."""
    state = layer.state_dict()
    for name in (name for name in state if not name.endswith("num_batches_tracked")):
        found = tensors.get(f"{prefix}.{name}")
        if found is None or found.shape != state[name].shape:
            raise ModelError(f"{problem % f'{prefix}.{name}'}; give weights with torchvision's names.")
        state[name] = found
    layer.load_state_dict(state)
