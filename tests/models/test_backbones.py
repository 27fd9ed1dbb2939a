"""Backbones: every one builds and can be cut anywhere; others can be added from outside."""

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from factlearn.assets import ASSETS
from factlearn.errors import ConfigError
from factlearn.models.backbones import BACKBONES, Backbone, register_backbone
from factlearn.models.config import ClassifierConfig, ModelConfig
from factlearn.models.embedder import FactEmbedder, build_embedder
from factlearn.models.vision import torchvision

CUTS = [
    (name, frozen, blocks)
    for name, backbone in BACKBONES.items()
    for blocks in range(1, len(backbone.blocks) + 1)
    for frozen in ["none", *backbone.blocks][: blocks + 1 : 2]
]


def small_layers():
    return [nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3), nn.ReLU()]


@pytest.fixture
def small():
    """A backbone of a user's own, for as long as a test takes."""
    backbone = Backbone("small", "Small", "for tests", small_layers, {"first": 4, "second": 6}, side=3)
    yield register_backbone(backbone)
    BACKBONES.unregister("small")


def embedder(**choices):
    torch.manual_seed(0)
    return FactEmbedder(ModelConfig(**{"weights": "pretrained", "image_size": 64, "hidden": (8,), **choices}), 5)


@pytest.mark.parametrize(("name", "frozen", "blocks"), CUTS)
def test_every_backbone_can_be_cut_after_every_block(name, frozen, blocks):
    backbone = BACKBONES.find(name)
    model = embedder(backbone=name, frozen=frozen, blocks=blocks)
    ends = [0, *backbone.blocks.values()]
    start = ["none", *backbone.blocks].index(frozen)
    assert len(model.prefix) == ends[start]
    assert len(model.suffix.convolutions) == ends[blocks] - ends[start]
    assert model(torch.zeros(2, 3, 64, 64)).shape == (2, 3, 5)


@pytest.mark.parametrize("name", list(BACKBONES))
def test_every_backbone_says_what_it_is_and_ends_with_its_last_block(name):
    backbone = BACKBONES.find(name)
    assert backbone.title
    assert backbone.summary
    assert max(backbone.blocks.values(), default=0) == len(backbone.layers())
    assert backbone.weights is None or backbone.weights in ASSETS
    features, channels = torch.zeros(1, 3, 64, 64), []
    for place, layer in enumerate(backbone.layers(), 1):
        features = layer.eval()(features)
        if place in backbone.blocks.values():
            channels.append(features.shape[1])
    assert backbone.channels == tuple(channels)


@pytest.mark.parametrize(("name", "theirs"), [("vgg16", "vgg16"), ("alexnet", "alexnet")])
def test_layers_are_torchvisions_in_its_order(name, theirs):
    with torch.device("meta"):
        expected = getattr(torchvision.models, theirs)(weights=None).features
    layers = BACKBONES.find(name).layers()
    assert [str(layer) for layer in layers] == [str(layer) for layer in expected]
    assert all(parameter.isfinite().all() for layer in layers for parameter in layer.parameters())


def test_a_perceptron_sees_pixels_or_rows():
    assert embedder(backbone="perceptron", weights=None, image_size=32).suffix.shared[0].in_features == 3 * 32 * 32


def test_a_backbone_registered_from_outside_is_built_by_name_and_can_be_taken_away(small):
    assert "small" in BACKBONES
    assert list(BACKBONES)[-1] == "small"
    config = ClassifierConfig(backbone="small", image_size=32, hidden=(8,))
    assert config.network is small
    model = build_embedder(config, 5)
    assert model.suffix.shared[0].in_features == 6 * 3 * 3
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 3, 5)
    with pytest.raises(ValidationError, match="frozen: choose one of none, first, second"):
        ModelConfig(backbone="small", frozen="conv1")
    with pytest.raises(ConfigError, match="no pretrained weights of Small"):
        build_embedder(ModelConfig(backbone="small"), 5)
    BACKBONES.unregister("small")
    with pytest.raises(ValidationError, match="no backbone 'small'"):
        ModelConfig(backbone="small")


def test_registering_a_backbone_twice_replaces_it_and_another_of_its_name_is_refused(small):
    register_backbone(Backbone("small", "Small again", "for tests", small_layers, {"first": 4}))
    assert BACKBONES.find("small").title == "Small again"
    with pytest.raises(ConfigError, match="two backbones called 'small'"):
        register_backbone(Backbone("small", "Other", "for tests", list, {}))


def test_statistics_of_the_frozen_prefix_are_part_of_its_name(small):
    one, other = (embedder(backbone="small", frozen="first") for _ in range(2))
    assert one.prefix_fingerprint() == other.prefix_fingerprint()
    with torch.no_grad():
        other.prefix[1].running_mean += 0.5
    assert one.prefix_fingerprint() != other.prefix_fingerprint()
    with torch.no_grad():
        other.prefix[1].running_mean -= 0.5
        other.suffix.convolutions[0].weight += 1
    assert one.prefix_fingerprint() == other.prefix_fingerprint()


def test_learning_never_changes_statistics_of_the_frozen_prefix(small):
    model = embedder(backbone="small", frozen="first").train()
    before = model.prefix_fingerprint()
    model(torch.randn(4, 3, 64, 64)).sum().backward()
    assert model.prefix_fingerprint() == before


@pytest.mark.parametrize(
    ("name", "features", "width"),
    [("vgg16", ("conv4", "conv5"), 1024), ("resnet50", ("layer3", "layer4"), 3072), ("alexnet", ("conv2",), 192)],
)
def test_features_of_several_blocks_lie_side_by_side_averaged_over_the_image(name, features, width):
    last = list(BACKBONES.find(name).blocks)[-1]
    frozen = embedder(backbone=name, features=features, frozen=last)
    learning = embedder(backbone=name, features=features)
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        taken = frozen.eval().prefix(images)
        assert taken.shape == (2, width, 1, 1)
        assert torch.equal(taken, learning.eval().suffix.convolutions(images))
        place = BACKBONES.find(name).blocks[features[0]]
        first = nn.Sequential(*list(frozen.prefix)[:place])(images).mean((2, 3))
    assert torch.equal(taken[:, : first.shape[1], 0, 0], first)
    assert frozen.prefix_fingerprint() != embedder(backbone=name, frozen=last).prefix_fingerprint()


@pytest.mark.parametrize("pooling", ["mean", "max", "mean+max"])
def test_features_are_pooled_as_the_config_says(small, pooling):
    images = torch.randn(2, 3, 32, 32)
    model = embedder(backbone="small", features=("first", "second"), pooling=pooling, frozen="all").eval()
    with torch.no_grad():
        first = nn.Sequential(*list(model.prefix)[:4])(images)
        second = nn.Sequential(*list(model.prefix)[4:])(first)
        found = model.prefix(images).flatten(1)
    ways = {"mean": lambda each: each.mean((2, 3)), "max": lambda each: each.amax((2, 3))}
    expected = [ways[way](each) for each in (first, second) for way in pooling.split("+")]
    torch.testing.assert_close(found, torch.cat(expected, dim=1))
    with pytest.raises(ValidationError, match="pooling: it applies to features"):
        ModelConfig(backbone="small", pooling="max")


def test_freezing_all_is_freezing_the_last_block_that_is_used(small):
    assert ModelConfig(backbone="small", frozen="all").cut == (6, 6)
    assert ModelConfig(backbone="small", frozen="all", blocks=1).cut == (4, 4)
    one, other = (embedder(backbone="small", frozen=frozen) for frozen in ("all", "second"))
    assert one.prefix_fingerprint() == other.prefix_fingerprint()


def test_features_are_frozen_all_or_none():
    with pytest.raises(ValidationError, match="all or none"):
        ModelConfig(features=("conv4", "conv5"), frozen="conv3")
    with pytest.raises(ValidationError, match="features: choose among"):
        ModelConfig(features=("stage9",))


@pytest.mark.assets
def test_the_real_efficientnet_gives_the_reference_implementations_features():
    """Printed by efficientnet-lite-pytorch 0.1.0 for the same input: mean and deviation of the last features."""
    model = build_embedder(ModelConfig(backbone="efficientnet-lite0", image_size=160, frozen="head", hidden=()), 5)
    image = torch.sin(torch.arange(3 * 160 * 160).float() * 0.37).reshape(1, 3, 160, 160)
    with torch.no_grad():
        found = model.eval().prefix(image)
    assert float(found.mean()) == pytest.approx(0.0995690, rel=1e-4)
    assert float(found.std()) == pytest.approx(0.4521379, rel=1e-4)


def test_a_fingerprint_that_was_taken_before_is_not_that_of_changed_weights():
    model = embedder(frozen="conv2")
    first = model.prefix_fingerprint()
    weight = next(model.prefix.parameters())
    with torch.no_grad():
        kept = weight[0, 0, 0, 0].clone()
        weight[0, 0, 0, 0] += 1
        changed = model.prefix_fingerprint()
        weight[0, 0, 0, 0] = kept
    assert changed != first == model.prefix_fingerprint()
    model.prefix.load_state_dict({name: 2 * value for name, value in model.prefix.state_dict().items()}, assign=True)
    assert model.prefix_fingerprint() not in {first, changed}
