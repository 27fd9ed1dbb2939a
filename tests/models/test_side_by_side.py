"""Backbones side by side: each sees the image in its own way, none drowns the others, a run treats them as one."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import nn

from factlearn.indexing.building import build_index, embed_one
from factlearn.models.backbones import BACKBONES, Backbone, register_backbone
from factlearn.models.config import ClassifierConfig, ModelConfig, weights_files
from factlearn.models.embedder import FactEmbedder, build_embedder
from factlearn.models.inputs import in_order, open_inputs
from factlearn.models.network import Standardise
from factlearn.models.preprocess import Preprocess
from tests.conftest import save_random_weights
from tests.learning.helpers import assert_same_run, learn

BOTH = {"backbone": "vgg16+alexnet", "frozen": "all", "image_size": 64, "hidden": ()}


def layers():
    return [nn.Conv2d(3, 6, 3, stride=2), nn.ReLU(), nn.Conv2d(6, 4, 3), nn.ReLU()]


@pytest.fixture
def small_pair(tmp_path):
    """The `model` section of two small backbones with weights of their own, for as long as a test takes."""
    files = []
    for name, std in (("one", 0.2), ("two", 1 / 255)):
        register_backbone(Backbone(name, name, "for tests", layers, {"low": 2, "high": 4}, std=(std,) * 3))
        files.append(str(save_random_weights(name, tmp_path / f"{name}.safetensors")))
    features = ["one.low", "one.high", "two.high"]
    yield {"backbone": ["one", "two"], "features": features, "frozen": "all", "weights": files, "image_size": 32}
    BACKBONES.unregister("one")
    BACKBONES.unregister("two")


def test_features_are_exactly_those_of_each_backbone_alone(vgg_weights, alexnet_weights):
    weights = (str(vgg_weights), str(alexnet_weights))
    config = ModelConfig(**BOTH, weights=weights, features=("vgg16.conv4", "vgg16.conv5", "alexnet.conv2"))
    pixels = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    found = []
    for name, file, features in zip(("vgg16", "alexnet"), weights, (("conv4", "conv5"), ("conv2",)), strict=True):
        alone = ModelConfig(**{**BOTH, "backbone": name}, weights=file, features=features)
        with torch.no_grad():
            found.append(build_embedder(alone, 5).eval().prefix(Preprocess.of(alone).normalise(pixels)))
    with torch.no_grad():
        together = build_embedder(config, 5).eval().prefix(Preprocess.of(config).normalise(pixels))
    torch.testing.assert_close(together, torch.cat(found, dim=1), rtol=1e-5, atol=1e-5)


def test_a_list_of_backbones_is_their_names_joined_and_each_gives_its_last_block():
    config = ModelConfig(backbone=["vgg16", "efficientnet-lite0"], frozen="all", features=("conv4", "conv5"))
    assert config.backbone == ModelConfig(backbone="vgg16 + efficientnet-lite0", frozen="all").backbone
    assert [part.features for part in config.parts] == [("conv4", "conv5"), ("head",)]
    assert config.network.title == "VGG-16 + EfficientNet-Lite0"


@pytest.mark.parametrize("root", [True, False])
def test_features_of_each_backbone_get_the_same_deviation_whatever_their_scale(root):
    layer = Standardise((7, 1, 1), (4, 3), root=root)
    features = torch.rand(40, 7, 1, 1) * torch.tensor([100.0] * 4 + [0.01] * 3).view(7, 1, 1)
    layer.fit(features.split(9))
    large, small = layer(features).split((4, 3), dim=1)
    for part in (large, small):
        assert float(part.square().mean().sqrt()) == pytest.approx(0.1, rel=1e-4)
        torch.testing.assert_close(part.mean(0), torch.zeros_like(part[0]), atol=1e-6, rtol=0)


def test_standardising_keeps_the_sign_of_features():
    layer = Standardise((3, 1, 1))
    features = torch.tensor([[-4.0, 1.0, 0.0], [4.0, 1.0, 0.0]]).view(2, 3, 1, 1)
    layer.fit([features])
    out = layer(features)
    torch.testing.assert_close(out[0, 0], -out[1, 0])
    assert float(out[1, 0]) > 0


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"frozen": "none"}, "cannot learn; set frozen to all"),
        ({"backbone": "vgg16+vgg16"}, "twice"),
        ({"backbone": "vgg16+alexnett"}, "did you mean alexnet"),
        ({"backbone": "vgg16+perceptron"}, "no features"),
        ({"blocks": 3}, "choose features instead"),
        ({"features": ["conv5"]}, "several backbones have a block conv5; write vgg16.conv5"),
        ({"features": ["head"]}, "choose among vgg16.conv1"),
        ({"weights": "net.safetensors"}, "one entry for each of vgg16, alexnet"),
        ({"weights": ["pretrained"]}, "1 for 2 backbones"),
        ({"image_size": 32}, "at least 64 pixels"),
        ({"backbone": "vgg16", "weights": ["pretrained"]}, "not a list"),
    ],
)
def test_what_cannot_stand_side_by_side_is_refused_in_one_sentence(choices, words):
    with pytest.raises(ValidationError, match=words) as refusal:
        ModelConfig(**{**BOTH, **choices})
    assert "\n" not in refusal.value.errors()[0]["msg"]


def test_a_run_on_two_backbones_resumes_and_its_index_and_predictions_agree(config, small_pair, tmp_path, manifest):
    config["model"] = {**small_pair, "hidden": [], "readout": "posterior"}
    both = {**config, "strategy": {"name": "ridge", "shrinkage": "auto"}}
    whole = learn(both, tmp_path / "whole")
    learn(both, tmp_path / "cut", stop_after=1)
    cut = learn(both, tmp_path / "cut", resume=True)
    assert_same_run(whole, cut)
    fresh = learn(both, tmp_path / "fresh", model__keep_activations=False)
    assert fresh.result().final.map_all == pytest.approx(whole.result().final.map_all, abs=1e-3)
    assert whole.model().suffix.width == 6 + 4 + 4
    image = manifest.parent / "0-8.png"
    index = build_index(whole, str(manifest.parent), tmp_path / "index")
    kept = dict(zip(index.ids, index.vectors, strict=True))["0-8.png"]
    np.testing.assert_allclose(embed_one(index, image), kept, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(whole.embed(image).ravel(), np.ravel(kept), rtol=1e-3, atol=1e-4)


def test_activations_kept_of_a_pair_are_those_of_each_backbone_and_serve_runs_on_one(small_pair, manifest, cache):
    paths = sorted(manifest.parent.glob("*.png"))[:4]
    pair = build_embedder(ModelConfig(**small_pair, hidden=()), 5).eval()
    kept, fresh = open_inputs(pair, paths), open_inputs(pair, paths, keep=False)
    torch.testing.assert_close(*(next(in_order(each, 4)) for each in (kept, fresh)))
    stores = sorted(path.name for path in (cache / "activations").iterdir())
    assert len(stores) == 2
    alone = {**small_pair, "backbone": "one", "features": ["low", "high"], "weights": small_pair["weights"][0]}
    open_inputs(build_embedder(ModelConfig(**alone, hidden=()), 5).eval(), paths)
    assert sorted(path.name for path in (cache / "activations").iterdir()) == stores


def test_classes_are_learned_on_two_backbones(shapes_config, small_pair, tmp_path):
    model = {**small_pair, "hidden": (8,), "standardise": True}
    run = learn({**shapes_config, "model": model}, tmp_path / "run")
    assert run.model().config == ClassifierConfig(**model)
    assert run.result().final.average > 0.4


def test_weights_come_one_for_each_backbone(vgg_weights, alexnet_weights):
    config = ModelConfig(**BOTH, weights=(str(vgg_weights), str(alexnet_weights)))
    assert weights_files(config) == [vgg_weights, alexnet_weights]
    assert weights_files(ModelConfig(weights=None)) == []


def test_statistics_of_any_backbone_and_the_pooling_are_part_of_the_prefixs_name():
    names = []
    for pooling in ("mean", "max"):
        torch.manual_seed(0)
        model = FactEmbedder(ModelConfig(**BOTH, pooling=pooling), 5)
        names.append(model.prefix_fingerprint())
    with torch.no_grad():
        model.prefix[1][0].bias += 1
    assert len({*names, model.prefix_fingerprint()}) == 3
