"""Networks of torchvision by name: taken apart exactly, loaded with the user's weights, refused in one sentence."""

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import save_file

from factlearn.errors import AssetError, ConfigError, ModelError
from factlearn.models.backbones import find_backbone
from factlearn.models.config import ModelConfig
from factlearn.models.embedder import build_embedder
from factlearn.models.torchvision_networks import torchvision_backbone, torchvision_names
from factlearn.models.vision import torchvision
from tests.learning.helpers import learn

LAST = {
    "resnet18": "avgpool", "mobilenet_v3_small": "avgpool", "convnext_tiny": "avgpool", "efficientnet_b0": "avgpool",
    "regnet_y_400mf": "avgpool", "squeezenet1_1": "classifier", "googlenet": "avgpool", "densenet121": "classifier",
}  # fmt: skip


def theirs(name):
    """torchvision's own network with random weights, statistics of its BatchNorm layers among them."""
    torch.manual_seed(0)
    extra = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    network = torchvision.models.get_model(name, weights=None, **extra).eval()
    for buffer in network.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)
    return network


@pytest.mark.parametrize(("name", "end"), LAST.items())
def test_the_last_block_gives_what_the_networks_own_pooling_sees(name, end, tmp_path):
    network, seen = theirs(name), []
    torch.save(network.state_dict(), tmp_path / "own.pth")
    getattr(network, end).register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    config = ModelConfig(
        backbone=f"torchvision/{name}", weights=str(tmp_path / "own.pth"), image_size=64, frozen="all", hidden=(4,)
    )
    model = build_embedder(config, 5).eval()
    images = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        network(images)
        found = model.prefix(images)
    expected = seen[0]
    if name == "densenet121":  # it pools by a function, before the classifier
        found = found.mean((2, 3))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert found.shape[1] == config.network.channels[-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", torchvision_names())
def test_every_network_is_taken_apart_or_refused(name):
    if name.startswith(("vit", "swin", "maxvit")):
        with pytest.raises(ConfigError, match="not a chain of convolutional layers"):
            torchvision_backbone(name)
        return
    backbone = torchvision_backbone(name)
    assert len(backbone.blocks) == len(backbone.channels) >= 3
    assert list(backbone.blocks.values()) == sorted(set(backbone.blocks.values()))
    assert max(backbone.blocks.values()) == len(backbone.prefixes)


def test_a_wrong_name_gets_near_matches_and_a_transformer_a_reason():
    with pytest.raises(ValidationError, match=r"no classification network 'resnet19'; did you mean torchvision/r"):
        ModelConfig(backbone="torchvision/resnet19")
    with pytest.raises(ValidationError, match="vit_b_16 is not a chain of convolutional layers"):
        ModelConfig(backbone="torchvision/vit_b_16")
    with pytest.raises(ValidationError, match="choose one of none, stem, layer1, layer2, layer3, layer4, all"):
        ModelConfig(backbone="torchvision/resnet18", frozen="layer5")


def test_it_needs_weights_of_ones_own_that_fit(tmp_path):
    config = ModelConfig(backbone="torchvision/resnet18", image_size=32, frozen="layer4", hidden=(4,))
    with pytest.raises(ConfigError, match="no pretrained weights of torchvision's resnet18; name a file"):
        build_embedder(config, 5)
    save_file({"conv1.weight": torch.zeros(2, 2)}, tmp_path / "other.safetensors")
    with pytest.raises(ModelError, match=r"has no conv1.weight that fits torchvision's resnet18"):
        build_embedder(config.model_copy(update={"weights": str(tmp_path / "other.safetensors")}), 5)
    (tmp_path / "broken.pth").write_bytes(b"no weights")
    with pytest.raises(AssetError, match="not a plain file of weights"):
        build_embedder(config.model_copy(update={"weights": str(tmp_path / "broken.pth")}), 5)


def test_weights_inside_a_training_checkpoint_are_found(tmp_path):
    state = {f"module.{name}": value for name, value in theirs("resnet18").state_dict().items()}
    torch.save({"epoch": 3, "state_dict": state}, tmp_path / "checkpoint.pth")
    config = ModelConfig(
        backbone="torchvision/resnet18", weights=str(tmp_path / "checkpoint.pth"), image_size=32, frozen="all"
    )
    found = build_embedder(config.model_copy(update={"hidden": (4,)}), 5).prefix[0].weight
    assert torch.equal(found, state["module.conv1.weight"])


@pytest.mark.parametrize("which", ["config", "shapes_config"])
def test_facts_and_classes_are_learned_on_it(which, request, tmp_path):
    config = request.getfixturevalue(which)
    torch.manual_seed(0)
    torch.save(torchvision.models.mobilenet_v3_small(weights=None).state_dict(), tmp_path / "own.pth")
    config["model"] = {
        "backbone": "torchvision/mobilenet_v3_small", "weights": str(tmp_path / "own.pth"), "image_size": 32,
        "features": ["features1", "features3"], "frozen": "all", "hidden": [8], "standardise": True,
    }  # fmt: skip
    run = learn(config, tmp_path / "run", training__epochs=1)
    assert run.model().suffix.shared[0].in_features == 16 + 24


def test_it_stands_beside_another_with_its_own_block_names():
    config = ModelConfig(backbone="vgg16+torchvision/resnet18", frozen="all", features=("layer3", "conv5"))
    assert [part.features for part in config.parts] == [("conv5",), ("layer3",)]
    assert find_backbone("vgg16+torchvision/resnet18").title == "VGG-16 + torchvision's resnet18"
