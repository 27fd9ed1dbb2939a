"""Whole networks from registry packages: names, folding of biases, damaged packages."""

import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from factlearn.assets import networks
from factlearn.errors import AssetError
from factlearn.models.efficientnet import efficientnet_lite0

SHAPES = {
    "conv1/kernel": (7, 7, 3, 64),
    "conv1/bias": (64,),
    "bn_conv1/gamma": (64,),
    "bn_conv1/beta": (64,),
    "bn_conv1/moving_mean": (64,),
    "bn_conv1/moving_variance": (64,),
    "res2a_branch1/kernel": (1, 1, 64, 256),
    "res2a_branch1/bias": (256,),
    "bn2a_branch1/moving_mean": (256,),
    "fc1000/kernel": (4, 10),
}


def tfjs_package(path: Path, arrays: dict[str, np.ndarray], shards: int = 3) -> Path:
    """An npm archive whose weights lie in several shards, as tensorflow.js writes them."""
    content = b"".join(array.tobytes() for array in arrays.values())
    cuts = np.linspace(0, len(content), shards + 1).astype(int)
    names = [f"group1-shard{n}of{shards}.bin" for n in range(1, shards + 1)]
    weights = [{"name": n, "shape": list(a.shape), "dtype": "float32"} for n, a in arrays.items()]
    files = {"model.json": json.dumps({"weightsManifest": [{"paths": names, "weights": weights}]}).encode()}
    files |= {name: content[a:b] for name, a, b in zip(names, cuts, cuts[1:], strict=False)}
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"package/ResNet50/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def test_keras_weights_get_torchvisions_names_and_biases_go_into_the_means(tmp_path):
    generator = np.random.default_rng(0)
    arrays = {name: generator.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    networks.of_resnet_package(tfjs_package(tmp_path / "r.tgz", arrays), tmp_path)
    kept = load_file(tmp_path / "weights.safetensors")
    assert "fc1000.weight" not in kept
    np.testing.assert_array_equal(kept["conv1.weight"], arrays["conv1/kernel"].transpose(3, 2, 0, 1)[:, ::-1])
    np.testing.assert_allclose(kept["bn1.running_mean"], arrays["bn_conv1/moving_mean"] - arrays["conv1/bias"])
    moved = arrays["bn2a_branch1/moving_mean"] - arrays["res2a_branch1/bias"]
    np.testing.assert_allclose(kept["layer1.0.downsample.1.running_mean"], moved)
    assert not any(name.endswith(("conv1.bias", "downsample.0.bias")) for name in kept)


def test_a_damaged_network_package_is_refused_in_one_sentence(tmp_path):
    for name, content in (("a.tgz", b"no archive"), ("b.tgz", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(AssetError, match="does not hold the network"):
            networks.of_resnet_package(tmp_path / name, tmp_path)
    with zipfile.ZipFile(tmp_path / "w.whl", "w") as archive:
        archive.writestr("model/readme.txt", "nothing")
    with pytest.raises(AssetError, match="does not hold the network"):
        networks.of_lite0_wheel(tmp_path / "w.whl", tmp_path)


def test_every_parameter_of_efficientnet_has_a_published_name():
    ours = {f"features.{name}" for name in torch.nn.Sequential(*efficientnet_lite0()).state_dict()}
    ours = {name for name in ours if not name.endswith("num_batches_tracked")}
    units = ("_expand_conv.weight", "_depthwise_conv.weight", "_project_conv.weight")
    norms = [f"_bn{n}.{part}" for n in range(3) for part in ("weight", "bias", "running_mean", "running_var")]
    published = ["_conv_stem.weight", "_conv_head.weight", *(n for n in norms if not n.startswith("_bn2"))]
    for block in range(16):
        skipped = ("_expand_conv", "_bn0") if block == 0 else ()
        published += [f"_blocks.{block}.{name}" for name in (*units, *norms) if not name.startswith(skipped)]
    assert {networks._lite0_name(name) for name in published} == ours
    assert networks._lite0_name("_fc.weight") is None
