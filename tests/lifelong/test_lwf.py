import pytest
import torch
import torch.nn.functional as F
from torch import nn

from factlearn.errors import ModelError
from factlearn.lifelong.ebll import EBLL
from factlearn.lifelong.features import output_layers
from factlearn.lifelong.lwf import LwF, softened_divergence
from factlearn.lifelong.strategy import Learner
from tests.lifelong.sequences import begin, network, random_tasks, step


def test_distillation_has_the_gradient_of_the_softened_cross_entropy():
    before = torch.randn(5, 4)
    scores = torch.randn(5, 4, requires_grad=True)
    ours = torch.autograd.grad(softened_divergence(scores, before, 2.0), scores)[0]
    plain = torch.autograd.grad(F.cross_entropy(scores / 2, (before / 2).softmax(1)), scores)[0]
    torch.testing.assert_close(ours, plain)


def test_what_has_not_changed_costs_nothing():
    scores = torch.randn(5, 4)
    assert softened_divergence(scores, scores, 2.0).abs() < 1e-6


@pytest.mark.parametrize("output", ["embedding", "scores"])
def test_the_first_step_of_a_task_is_distilled_from_the_network_before_it(output):
    data = random_tasks(1, output)[0]
    module, strategy = network(), LwF(1.0)
    learner = begin(module, strategy, 1, data, output)
    assert strategy.extra_loss(learner, data[0], module(data[0])).item() == pytest.approx(0, abs=1e-6)
    step(learner, strategy, data)
    extra = strategy.extra_loss(learner, data[0], module(data[0]))
    assert extra.item() > 0
    if output == "embedding":
        with torch.no_grad():
            expected = (module(data[0]) - network()(data[0])).square().sum(1).mean()
        torch.testing.assert_close(extra.detach(), expected)


class TwoHeads(nn.Module):
    """One head per task; both outputs are returned as a list."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.trunk = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.heads = nn.ModuleList([nn.Linear(8, 4), nn.Linear(8, 3)])

    def forward(self, inputs):
        features = self.trunk(inputs)
        return [head(features) for head in self.heads]


@pytest.mark.parametrize("make", [lambda: LwF(1.0, warmup_epochs=2), lambda: EBLL(1.0, warmup_epochs=2)])
def test_a_new_head_warms_up_alone_and_only_old_heads_are_distilled(make):
    module, strategy = TwoHeads(), make()
    inputs, labels = torch.randn(16, 6), torch.randint(3, (16,))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    head = ["heads.1.weight", "heads.1.bias"]
    if isinstance(strategy, EBLL):
        strategy.after_task(Learner(module, optimizer, 0, [inputs], output="scores", head=["heads.0.weight"]))
    learner = Learner(module, optimizer, 1, [inputs], output="scores", head=head)
    strategy.before_task(learner)
    start = {name: p.detach().clone() for name, p in module.named_parameters()}
    for epoch in range(3):
        learner.epoch = epoch
        outputs = module(inputs)
        extra = strategy.extra_loss(learner, inputs, outputs)
        if epoch < 2:
            assert extra.item() == pytest.approx(0, abs=1e-6)
        (F.cross_entropy(outputs[1], labels) + extra).backward()
        strategy.after_backward(learner)
        optimizer.step()
        optimizer.zero_grad()
        moved = {name for name, p in module.named_parameters() if not torch.equal(p, start[name])}
        assert moved == (set(head) if epoch < 2 else set(start))


def test_the_features_are_what_all_output_layers_see():
    assert output_layers(TwoHeads(), torch.randn(2, 6)) == ["heads.0", "heads.1"]
    assert output_layers(network(), torch.randn(2, 6)) == ["4"]


def test_ebll_without_a_linear_layer_says_what_to_do():
    module = nn.Conv2d(1, 1, 3)
    learner = Learner(module, torch.optim.SGD(module.parameters(), lr=0.1), 0, [torch.randn(2, 1, 5, 5)])
    with pytest.raises(ModelError, match="use LwF"):
        EBLL(1.0).after_task(learner)


def test_a_code_rebuilds_what_the_outputs_read_and_ignores_other_directions():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(20, 3, bias=False))
    with torch.no_grad():
        module[0].weight[:, 3:] = 0
    strategy = EBLL(1.0, code_size=3, autoencoder_epochs=100)
    learner = Learner(module, torch.optim.SGD(module.parameters(), lr=0.1), 0, [torch.randn(256, 20)])
    strategy.after_task(learner)
    squares = strategy.encoders[0].linear.weight.square()
    assert squares[:, :3].mean() > 5 * squares[:, 3:].mean()
