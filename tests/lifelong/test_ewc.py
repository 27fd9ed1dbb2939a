import pytest
import torch

from factlearn.errors import FactlearnError
from factlearn.lifelong.ewc import EWC
from factlearn.lifelong.strategy import Learner
from tests.lifelong.sequences import learn_sequence, network


def test_separate_penalties_are_one_penalty_around_the_weighted_mean():
    strategy = EWC(1.0, penalties="separate")
    fishers, solutions = torch.rand(3, 5), torch.randn(3, 5)
    fishers[:, 0] = 0
    for fisher, solution in zip(fishers, solutions, strict=True):
        strategy.accumulate("w", fisher, solution)

    def separate(theta):
        return (fishers * (theta - solutions) ** 2).sum()

    def single(theta):
        return (strategy.omega["w"] * (theta - strategy.theta_star["w"]) ** 2).sum()

    constant = separate(torch.zeros(5)) - single(torch.zeros(5))
    for _ in range(5):
        theta = torch.randn(5)
        torch.testing.assert_close(separate(theta) - single(theta), constant, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(strategy.theta_star["w"][0], solutions[2, 0])


def test_the_running_sum_is_held_around_the_last_solution():
    module, strategy = learn_sequence(lambda: EWC(0.1))
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(strategy.theta_star[name], parameter.detach(), rtol=0, atol=0)


def test_the_empirical_fisher_of_an_embedding_is_made_of_gradients_of_its_loss():
    module = network()
    inputs, targets = torch.randn(6, 6), torch.randn(6, 4)
    strategy = EWC(1.0, labels="empirical")
    strategy.after_task(Learner(module, torch.optim.SGD(module.parameters(), lr=0.1), 0, [(inputs, targets)]))
    expected = torch.zeros_like(module[4].weight)
    for row, target in zip(inputs, targets, strict=True):
        loss = (module(row[None]) - target).square().sum() / 2
        expected += torch.autograd.grad(loss, module[4].weight)[0] ** 2 / len(inputs)
    torch.testing.assert_close(strategy.omega["4.weight"], expected, rtol=1e-4, atol=1e-6)


def test_a_drawn_fisher_is_close_to_the_true_one():
    module = network()
    inputs = torch.randn(4000, 6)
    omegas = []
    for labels in ("true", "sampled"):
        strategy = EWC(1.0, labels=labels)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        strategy.after_task(Learner(module, optimizer, 0, inputs.split(500), output="scores"))
        omegas.append(strategy.omega["2.weight"].flatten())
    assert torch.corrcoef(torch.stack(omegas))[0, 1] > 0.97


def test_the_empirical_fisher_without_targets_says_what_it_needs():
    module = network()
    learner = Learner(module, torch.optim.SGD(module.parameters(), lr=0.1), 0, [torch.randn(4, 6)])
    with pytest.raises(FactlearnError, match="targets"):
        EWC(1.0, labels="empirical").after_task(learner)
