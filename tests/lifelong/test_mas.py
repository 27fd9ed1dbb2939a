import pytest
import torch
from torch import nn

from factlearn.errors import ModelError
from factlearn.lifelong.finetune import FineTune
from factlearn.lifelong.l_mas import LocalMAS
from factlearn.lifelong.mas import MAS
from factlearn.lifelong.mas_vector import VectorMAS
from factlearn.lifelong.strategy import Learner
from tests.lifelong.sequences import learn_sequence, losses, network


def learner_of(module, task, batches):
    return Learner(module, torch.optim.SGD(module.parameters(), lr=0.1), task, batches)


def test_more_strength_forgets_less():
    free = losses(learn_sequence(FineTune)[0])[0]
    held = [losses(learn_sequence(lambda s=strength: MAS(s))[0])[0] for strength in (0.01, 0.1, 1.0)]
    assert free > held[0] > held[1] > held[2]


def test_importance_is_the_mean_absolute_gradient_of_each_sample():
    module, strategy = network(), MAS(1.0)
    inputs = torch.randn(10, 6)
    strategy.after_task(learner_of(module, 0, inputs.split(3)))
    expected = {name: torch.zeros_like(parameter) for name, parameter in module.named_parameters()}
    for sample in inputs:
        gradients = torch.autograd.grad(module(sample[None]).square().sum(), list(module.parameters()))
        for name, gradient in zip(expected, gradients, strict=True):
            expected[name] += gradient.abs() / len(inputs)
    for name, omega in strategy.omega.items():
        torch.testing.assert_close(omega, expected[name], rtol=1e-4, atol=1e-6)


def test_local_importance_is_how_much_connected_neurons_fire_together():
    module, strategy = network(), LocalMAS(1.0)
    inputs = torch.randn(10, 6)
    strategy.after_task(learner_of(module, 0, inputs.split(3)))
    with torch.no_grad():
        first = module[1](module[0](inputs))
        second = module[3](module[2](first))
    expected = torch.einsum("ki,kj->ij", second, first) / len(inputs)  # eq. 7
    torch.testing.assert_close(strategy.omega["2.weight"], expected)


def test_vector_importance_adds_the_outputs_absolute_gradients():
    module, strategy = nn.Sequential(nn.Linear(6, 4)), VectorMAS(1.0)
    inputs = torch.randn(10, 6)
    strategy.after_task(learner_of(module, 0, [inputs]))
    torch.testing.assert_close(strategy.omega["0.weight"], inputs.abs().mean(0).expand(4, 6))


def test_importance_adds_up_over_tasks_and_the_last_solution_is_held():
    module, strategy = network(), MAS(1.0)
    batches = torch.randn(10, 6).split(5)
    strategy.after_task(learner_of(module, 0, batches))
    once = {name: omega.clone() for name, omega in strategy.omega.items()}
    strategy.after_task(learner_of(module, 1, batches))
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(strategy.omega[name], 2 * once[name])
        torch.testing.assert_close(strategy.theta_star[name], parameter.detach(), rtol=0, atol=0)
        assert strategy.theta_star[name].data_ptr() != parameter.data_ptr()


def test_importance_of_another_network_is_refused():
    strategy = MAS(1.0)
    strategy.after_task(learner_of(network(), 0, [torch.randn(4, 6)]))
    other = nn.Sequential(nn.Linear(6, 13))
    with pytest.raises(ModelError, match="another shape"):
        strategy.before_task(learner_of(other, 1, []))


def test_the_floor_adds_the_same_share_of_the_mean_to_every_parameter():
    batches = [torch.randn(4, 6)]
    plain, raised = MAS(1.0), MAS(1.0, floor=0.5)
    for strategy in (plain, raised):
        strategy.after_task(learner_of(network(), 0, batches))
    whole = torch.cat([omega.flatten() for omega in plain.omega.values()])
    for name, omega in plain.omega.items():
        torch.testing.assert_close(raised.omega[name], omega + 0.5 * whole.mean())
