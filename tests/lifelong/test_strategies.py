import torch
from torch import nn

from factlearn.lifelong.finetune import FineTune
from factlearn.lifelong.joint import Joint
from factlearn.lifelong.mas import MAS
from factlearn.lifelong.strategy import Learner


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))


def learn(module, strategy, task, inputs, targets, steps=150):
    learner = Learner(module, torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9), task, inputs.split(8))
    strategy.before_task(learner)
    for _ in range(steps):
        (module(inputs) - targets).square().sum(1).mean().backward()
        strategy.after_backward(learner)
        learner.optimizer.step()
        learner.optimizer.zero_grad()
        strategy.after_step(learner)
    strategy.after_task(learner)


def sequence(strategy):
    """Learn two random regressions; the loss of the first before and after learning the second, and the second's."""
    generator = torch.Generator().manual_seed(1)
    data = [(torch.randn(32, 6, generator=generator), torch.randn(32, 4, generator=generator)) for _ in range(2)]
    module = network()
    losses = []
    for task, (inputs, targets) in enumerate(data):
        learn(module, strategy, task, inputs, targets)
        with torch.no_grad():
            losses.append([(module(x) - y).square().sum(1).mean().item() for x, y in data])
    return losses


def test_mas_forgets_less_than_finetune_and_more_strength_forgets_less():
    free = sequence(FineTune())[1][0]
    held = [sequence(MAS(strength))[1][0] for strength in (0.01, 0.1, 1.0)]
    assert free > held[0] > held[1] > held[2]


def test_mas_without_strength_is_finetune():
    assert sequence(MAS(0.0)) == sequence(FineTune())


def test_importance_is_the_mean_absolute_gradient_of_each_sample():
    module, strategy = network(), MAS(1.0)
    inputs = torch.randn(10, 6)
    strategy.after_task(Learner(module, torch.optim.SGD(module.parameters(), lr=0.1), 0, inputs.split(3)))
    expected = {name: torch.zeros_like(parameter) for name, parameter in module.named_parameters()}
    for sample in inputs:
        gradients = torch.autograd.grad(module(sample[None]).square().sum(), list(module.parameters()))
        for name, gradient in zip(expected, gradients, strict=True):
            expected[name] += gradient.abs() / len(inputs)
    for name, omega in strategy.omega.items():
        torch.testing.assert_close(omega, expected[name], rtol=1e-4, atol=1e-6)


def test_importance_adds_up_over_tasks_and_the_last_solution_is_held():
    module, strategy = network(), MAS(1.0)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    batches = torch.randn(10, 6).split(5)
    strategy.after_task(Learner(module, optimizer, 0, batches))
    once = {name: omega.clone() for name, omega in strategy.omega.items()}
    strategy.after_task(Learner(module, optimizer, 1, batches))
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(strategy.omega[name], 2 * once[name])
        torch.testing.assert_close(strategy.theta_star[name], parameter.detach(), rtol=0, atol=0)


def test_a_strategy_goes_on_from_its_saved_state():
    module, strategy = network(), MAS(1.0)
    strategy.after_task(Learner(module, torch.optim.SGD(module.parameters(), lr=0.1), 0, torch.randn(4, 6).split(2)))
    other = MAS(1.0)
    other.load_state(strategy.state())
    assert other.state().keys() == strategy.state().keys()
    for name, tensor in strategy.state().items():
        torch.testing.assert_close(other.state()[name], tensor, rtol=0, atol=0)


def test_joint_learns_all_tasks_in_one_stage_and_the_others_one_by_one():
    assert Joint().stages(["a", "b"]) == [["a", "b"]]
    assert FineTune().stages(["a", "b"]) == [["a"], ["b"]]
