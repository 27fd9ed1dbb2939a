"""BatchNorm in backbones: statistics stay those of the pretrained weights; importance of its parameters is exact."""

import pytest
import torch
from torch import nn

from factlearn.lifelong.importance import estimate
from factlearn.models.config import ModelConfig
from factlearn.models.embedder import FactEmbedder
from tests.lifelong.oracle import assert_equal, loop

LEARNING = [("efficientnet-lite0", 3), ("resnet50", 2), ("torchvision/mobilenet_v3_small", 3)]


def learning(name, blocks, weights="pretrained"):
    """A network that learns down to the pixels, with random weights and the statistics of a trained network."""
    torch.manual_seed(0)
    config = ModelConfig(backbone=name, blocks=blocks, weights=weights, image_size=64, hidden=())
    model = FactEmbedder(config, 3)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.uniform_(-0.5, 0.5)
            layer.running_var.uniform_(0.5, 1.5)
    return model


def statistics(model):
    return {name: value.clone() for name, value in model.state_dict().items() if "running" in name}


@pytest.mark.parametrize(("name", "blocks"), LEARNING)
def test_learning_leaves_pretrained_statistics_alone_and_moves_scale_and_shift(name, blocks):
    model = learning(name, blocks).train()
    before = statistics(model)
    assert before
    scales = {key: value.clone() for key, value in model.suffix.convolutions.named_parameters()}
    model(torch.randn(3, 3, 64, 64)).square().sum().backward()
    torch.optim.SGD(model.suffix.parameters(), lr=0.1).step()
    after = statistics(model)
    assert all(torch.equal(after[key], value) for key, value in before.items())
    norms = [key for key, module in model.suffix.convolutions.named_modules() if isinstance(module, nn.BatchNorm2d)]
    now = dict(model.suffix.convolutions.named_parameters())
    assert any(not torch.equal(now[f"{key}.weight"], scales[f"{key}.weight"]) for key in norms)


def test_without_pretrained_weights_statistics_follow_the_images():
    model = learning("resnet50", 1, weights=None).train()
    before = statistics(model)
    model(torch.randn(3, 3, 64, 64))
    assert any(not torch.equal(statistics(model)[key], value) for key, value in before.items())
    model.eval()
    before = statistics(model)
    model(torch.randn(3, 3, 64, 64))
    assert all(torch.equal(statistics(model)[key], value) for key, value in before.items())


@pytest.mark.parametrize(("name", "blocks"), LEARNING)
def test_importance_equals_the_per_sample_definition_in_learning_and_in_eval_mode(name, blocks):
    model = learning(name, blocks)
    images = torch.randn(3, 3, 64, 64)
    expected = loop(model.suffix, images)
    assert all(value.sum() > 0 for value in expected.values())
    model.train()
    assert_equal(estimate(model.suffix, images.split(2)).mean(), expected, 1e-4)
