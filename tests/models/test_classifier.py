import pytest
import torch

from factlearn.errors import ModelError
from factlearn.lifelong.importance import estimate
from factlearn.lifelong.registry import METHODS, make_strategy
from factlearn.lifelong.strategy import Learner
from factlearn.models.classifier import build_classifier
from factlearn.models.config import ClassifierConfig

PERCEPTRON = ClassifierConfig(backbone="perceptron", hidden=(12, 8), dropout=0.0)


def perceptron(classes=(3, 4)):
    torch.manual_seed(0)
    return build_classifier(PERCEPTRON, classes, 6)


def test_every_task_has_a_head_of_its_own():
    scores = perceptron()(torch.randn(5, 6))
    assert [tuple(each.shape) for each in scores] == [(5, 3), (5, 4)]


def test_only_the_heads_of_the_stage_learn_and_the_shared_layers_always_do():
    suffix = perceptron((2, 2, 2)).suffix
    assert suffix.learn_heads([1]) == ["heads.1.weight", "heads.1.bias"]
    learning = {name for name, p in suffix.named_parameters() if p.requires_grad}
    assert learning == {"shared.0.weight", "shared.0.bias", "shared.3.weight", "shared.3.bias",
                        "heads.1.weight", "heads.1.bias"}  # fmt: skip
    assert len(suffix(torch.randn(2, 6))) == 2


def test_importance_is_about_the_tasks_own_head():
    suffix = perceptron().suffix
    suffix.learn_heads([1])
    inputs = torch.randn(4, 6)
    omega = estimate(suffix.of_task(1), [inputs]).mean()
    expected = torch.zeros_like(suffix.shared[0].weight)
    for row in inputs:
        suffix.zero_grad()
        suffix(row.unsqueeze(0))[1].square().sum().backward()
        expected += suffix.shared[0].weight.grad.abs() / len(inputs)
    torch.testing.assert_close(omega["shared.0.weight"], expected)
    assert isinstance(suffix(inputs), list)


@pytest.mark.parametrize("name", ["mas", "l-mas", "mas-vector", "ewc", "si", "imm-mean", "imm-mode"])
def test_what_a_method_remembers_covers_the_shared_layers_only(name):
    suffix = perceptron().suffix
    strategy = make_strategy(METHODS.find(name).config())
    for task in (0, 1):
        head = suffix.learn_heads([task])
        optimizer = torch.optim.SGD(suffix.parameters(), lr=0.1, momentum=0.9)
        learner = Learner(
            suffix, optimizer, task, [torch.randn(8, 6)], "scores", head=head, measured=suffix.of_task(task)
        )
        before = suffix.heads[0].weight.clone()
        strategy.before_task(learner)
        for _ in range(3):
            suffix(torch.randn(8, 6))[task].square().sum().backward()
            strategy.after_backward(learner)
            optimizer.step()
            optimizer.zero_grad()
            strategy.after_step(learner)
        strategy.after_task(learner)
        if task == 1:
            strategy.after_sequence(learner)
            assert torch.equal(suffix.heads[0].weight, before)
    assert strategy.state()
    assert not [name for name in strategy.state() if "heads" in name]


def test_weights_are_read_and_a_frozen_prefix_gives_the_same_scores(alexnet_weights):
    scores = []
    for frozen in ("none", "conv3", "conv5"):
        config = ClassifierConfig(weights=str(alexnet_weights), image_size=64, frozen=frozen, hidden=(8,))
        torch.manual_seed(0)
        model = build_classifier(config, [3]).eval()
        torch.manual_seed(1)
        model.suffix.shared.apply(
            lambda layer: layer.reset_parameters() if hasattr(layer, "reset_parameters") else None
        )
        model.suffix.heads[0].reset_parameters()
        scores.append(model(torch.linspace(0, 1, 3 * 64 * 64).view(1, 3, 64, 64))[0])
    torch.testing.assert_close(scores[0], scores[1])
    torch.testing.assert_close(scores[0], scores[2])


def test_vgg_is_built_with_its_own_shape():
    model = build_classifier(ClassifierConfig(backbone="vgg16", image_size=64, hidden=(8,)), [3])
    assert model.suffix.shared[0].weight.shape == (8, 512 * 2 * 2)


def test_weights_of_another_network_are_refused(vgg_weights):
    with pytest.raises(ModelError, match="fits AlexNet"):
        build_classifier(ClassifierConfig(weights=str(vgg_weights), image_size=64), [2])


def test_tasks_can_share_one_head():
    config = PERCEPTRON.model_copy(update={"heads": "shared"})
    model = build_classifier(config, [3, 3], 6)
    assert model.suffix.learn_heads([1]) == []
    scores = model(torch.randn(5, 6))
    assert scores.shape == (5, 3)
    assert all(p.requires_grad for p in model.suffix.parameters())
    with pytest.raises(ModelError, match="same number of classes"):
        build_classifier(config, [3, 4], 6)
