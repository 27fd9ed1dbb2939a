import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from factlearn.lifelong.penalty import QuadraticPenalty
from factlearn.lifelong.strategy import Learner


def learner(momentum=0.0, rate=0.05, values=(1.0, -2.0, 3.0)):
    module = nn.Module()
    module.theta = nn.Parameter(torch.tensor(values))
    return Learner(module, torch.optim.SGD(module.parameters(), lr=rate, momentum=momentum))


def descend(form, omega, strength, momentum, rate, steps=400):
    """Minimise sum (theta - target)^2 under the penalty, as the training loop does."""
    state = learner(momentum, rate)
    target = torch.tensor([4.0, 4.0, 4.0])
    penalty = QuadraticPenalty({"theta": omega}, {"theta": torch.zeros(3)}, strength, form)
    for _ in range(steps):
        (state.module.theta - target).square().sum().backward()
        penalty.after_backward(state)
        state.optimizer.step()
        state.optimizer.zero_grad()
        penalty.after_step(state)
    return state.module.theta.detach()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_gradient_form_rests_where_the_penalised_loss_is_least(momentum):
    omega, strength = torch.tensor([0.0, 0.5, 2.0]), 1.5
    expected = 4.0 / (1 + strength * omega)  # d/dtheta (theta - 4)^2 + lambda omega theta^2 = 0
    torch.testing.assert_close(descend("gradient", omega, strength, momentum, 0.02), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_proximal_form_rests_at_the_same_point_as_the_rate_falls(momentum):
    omega, strength = torch.tensor([0.0, 0.5, 2.0]), 1.5
    expected = 4.0 / (1 + strength * omega)
    rested = descend("proximal", omega, strength, momentum, 0.002, steps=6000)
    torch.testing.assert_close(rested, expected, rtol=0.03, atol=0.03)


@settings(deadline=None, max_examples=30)
@given(st.floats(0, 1e6), st.floats(0, 1e4), st.floats(0, 0.99))
def test_the_proximal_form_never_diverges(omega, strength, momentum):
    theta = descend("proximal", torch.full((3,), omega), strength, momentum, 0.05, steps=60)
    assert torch.isfinite(theta).all()
    assert theta.abs().max() <= 20


def test_the_gradient_form_diverges_where_the_proximal_does_not():
    omega = torch.full((3,), 1e3)
    assert not descend("gradient", omega, 10.0, 0.0, 0.05, steps=200).abs().max() < 1e6
    torch.testing.assert_close(descend("proximal", omega, 10.0, 0.0, 0.05), torch.zeros(3), atol=1e-2, rtol=0)


def test_one_proximal_step_is_the_formula():
    state = learner(momentum=0.5, rate=0.1)
    omega, old = torch.tensor([0.0, 1.0, 10.0]), torch.tensor([5.0, 5.0, 5.0])
    before = state.module.theta.detach().clone()
    QuadraticPenalty({"theta": omega}, {"theta": old}, 3.0, "proximal").after_step(state)
    c = 2 * (0.1 / 0.5) * 3.0 * omega
    torch.testing.assert_close(state.module.theta.detach(), (before + c * old) / (1 + c))


def test_a_changed_learning_rate_changes_the_pull():
    state = learner()
    penalty = QuadraticPenalty({"theta": torch.ones(3)}, {"theta": torch.zeros(3)}, 1.0, "proximal")
    penalty.after_step(state)
    state.optimizer.param_groups[0]["lr"] = 0.0
    held = state.module.theta.detach().clone()
    penalty.after_step(state)
    torch.testing.assert_close(state.module.theta.detach(), held)


def test_the_value_is_equation_three():
    state = learner()
    penalty = QuadraticPenalty({"theta": torch.tensor([1.0, 2.0, 0.0])}, {"theta": torch.zeros(3)}, 0.5, "gradient")
    assert penalty.value(state) == pytest.approx(0.5 * (1 * 1 + 2 * 4))


@pytest.mark.parametrize("form", ["proximal", "gradient"])
def test_a_parameter_without_importance_is_free_and_one_number_serves_a_whole_parameter(form):
    state = learner()
    state.module.head = nn.Parameter(torch.ones(2))
    state.optimizer.add_param_group({"params": [state.module.head]})
    other = learner()
    penalties = [
        (state, QuadraticPenalty({"theta": torch.tensor(2.0)}, {"theta": torch.zeros(3)}, 1.0, form)),
        (other, QuadraticPenalty({"theta": torch.full((3,), 2.0)}, {"theta": torch.zeros(3)}, 1.0, form)),
    ]
    for each, penalty in penalties:
        sum(parameter.sum() for parameter in each.module.parameters()).backward()
        penalty.after_backward(each)
        each.optimizer.step()
        each.optimizer.zero_grad()
        penalty.after_step(each)
    torch.testing.assert_close(state.module.theta, other.module.theta)
    torch.testing.assert_close(state.module.head.detach(), torch.full((2,), 0.95))
