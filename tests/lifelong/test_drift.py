"""Drift compensation: sums that follow the features, and outputs solved from them."""

import pytest
import torch
from torch import nn

from factlearn.lifelong.drift import Drift, fit_drift, moved_sums
from factlearn.lifelong.ridge import Ridge
from factlearn.lifelong.strategy import Learner
from factlearn.lifelong.sums import Sums

WIDTH = 6


class Affine(nn.Module):
    """Features that are an affine map of the inputs, and one output layer of scores."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Linear(WIDTH, WIDTH).double()
        self.output = nn.Linear(WIDTH, 4).double()

    def forward(self, inputs):
        return self.output(self.features(inputs))


def images(seed, count=60):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, WIDTH, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(4, (count,), generator=generator)


def learner_of(module, task, data):
    batches = list(zip(*(each.split(16) for each in data), strict=True))
    return Learner(module, torch.optim.SGD(module.parameters(), lr=0.1), task, batches, output="scores")


def move(module):
    """What a task's gradient steps do to the features."""
    with torch.no_grad():
        module.features.weight.add_(0.4 * torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(9)))
        module.features.bias.add_(0.5)


def test_after_an_affine_drift_the_solution_is_that_of_all_features_computed_again():
    module, strategy, first, second = Affine(), Drift(1.0, shrinkage=0.1), images(1), images(2)
    learner = learner_of(module, 0, first)
    strategy.before_task(learner)
    strategy.after_task(learner)
    learner = learner_of(module, 1, second)
    strategy.before_task(learner)
    move(module)
    strategy.after_task(learner)
    again, plain = Affine(), Ridge(0.1)
    move(again)
    for task, data in enumerate((first, second)):
        plain.after_task(learner_of(again, task, data))
    torch.testing.assert_close(strategy.ridge.sums.totals, plain.sums.totals, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(module.output.weight, again.output.weight, rtol=2e-2, atol=2e-3)


def test_ridge_alone_is_wrong_after_the_same_drift():
    module, first = Affine(), images(1)
    plain = Ridge(0.1)
    plain.after_task(learner_of(module, 0, first))
    before = plain.sums.totals.clone()
    move(module)
    again = Ridge(0.1)
    again.after_task(learner_of(module, 0, first))
    assert not torch.allclose(before, again.sums.totals, rtol=0.1, atol=0.1)


def test_features_that_did_not_move_leave_the_sums_as_they_are():
    inputs, labels = images(3)
    sums = Sums()
    sums.extend(torch.zeros(4), WIDTH)
    sums.add([(inputs, labels)])
    drift, residual = fit_drift(iter([(inputs, inputs.clone())]))
    moved = moved_sums(sums, drift, residual)
    torch.testing.assert_close(moved.totals, sums.totals)
    torch.testing.assert_close(moved.scatter[0], sums.scatter[0])


def test_what_the_map_does_not_explain_is_added_to_the_scatter():
    inputs, labels = images(4, count=4000)
    noise = 0.5 * torch.randn(inputs.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    after = inputs + noise
    sums, again = Sums(), Sums()
    for each, features in ((sums, inputs), (again, after)):
        each.extend(torch.zeros(4), WIDTH)
        each.add([(features, labels)])
    drift, residual = fit_drift(iter([(inputs, after)]))
    moved, without = moved_sums(sums, drift, residual), moved_sums(sums, drift, torch.zeros_like(residual))
    expected = again.moments().gram.diagonal()
    torch.testing.assert_close(moved.moments().gram.diagonal(), expected, rtol=0.03, atol=0)
    assert (without.moments().gram.diagonal()[:-1] < 0.9 * expected[:-1]).all()
    assert moved.totals[:, -1].tolist() == sums.totals[:, -1].tolist()


@pytest.mark.parametrize("strength", [0.0, 2.0])
def test_the_features_are_held_in_units_of_their_length(strength):
    module, strategy, data = Affine(), Drift(strength), images(6)
    strategy.after_task(learner_of(module, 0, data))
    learner = learner_of(module, 1, data)
    strategy.before_task(learner)
    old = module.features(data[0]).detach()
    move(module)
    extra = strategy.extra_loss(learner, data[0], module(data[0]))
    new = module.features(data[0])
    torch.testing.assert_close(extra, strength * (new - old).square().sum() / old.square().sum())
