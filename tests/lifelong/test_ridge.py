"""Ridge after every task is ridge regression on the images of all tasks so far."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import Ridge as Reference
from torch import nn

from factlearn.errors import ModelError
from factlearn.lifelong.ridge import Ridge
from factlearn.lifelong.solving import SHRINKAGES, TEMPERATURES, solve
from factlearn.lifelong.strategy import Learner

UNITS, DIMENSION = 3, 4


class Forked(nn.Module):
    """A small network that forks into one output per unit, as the fact embedder does."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(512, 20), nn.ReLU())
        self.fork = nn.ModuleList([nn.Linear(20, DIMENSION) for _ in range(UNITS)])

    def forward(self, inputs):
        features = self.features(inputs)
        return torch.stack([unit(features) for unit in self.fork], dim=1)


def forked():
    torch.manual_seed(0)
    return Forked().eval()


def facts(seed, samples=25):
    """Activations and targets; of some facts the last units are missing."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(samples, 512, 1, 1, generator=generator)
    targets = torch.randn(samples, UNITS, DIMENSION, generator=generator)
    units = torch.randint(1, UNITS + 1, (samples,), generator=generator)
    targets[torch.arange(UNITS) >= units.unsqueeze(1)] = float("nan")
    return inputs, targets


def learn(module, strategy, tasks):
    for number, data in enumerate(tasks):
        batches = list(zip(*(each.split(7) for each in data), strict=True))
        learner = Learner(module, torch.optim.SGD(module.parameters(), lr=1.0), number, batches)
        strategy.before_task(learner)
        strategy.after_task(learner)
    return module


def expected(module, tasks, shrinkage):
    """Each unit's outputs by scikit-learn, from all images that have the unit."""
    inputs, targets = (torch.cat(each) for each in zip(*tasks, strict=True))
    features = module.features(inputs).detach().double().numpy()
    found = []
    for unit in range(UNITS):
        known = targets[:, unit].isfinite().all(1).numpy()
        seen = features[known]
        strength = shrinkage * np.square(seen).sum(1).mean()
        reference = Reference(alpha=strength).fit(seen, targets[known, unit].double().numpy())
        found.append(reference.predict(features))
    return np.stack(found, axis=1)


@pytest.mark.parametrize("shrinkage", [0.01, 0.2, 3.0])
def test_after_each_task_it_is_ridge_regression_on_all_images_so_far(shrinkage):
    tasks = [facts(seed) for seed in range(3)]
    module, strategy = forked(), Ridge(shrinkage)
    for number, task in enumerate(tasks, 1):
        learn(module, strategy, [task])
        outputs = module(torch.cat([inputs for inputs, _ in tasks[:number]])).detach().numpy()
        np.testing.assert_allclose(outputs, expected(module, tasks[:number], shrinkage), rtol=1e-3, atol=1e-3)


def test_the_order_of_tasks_does_not_matter_and_nothing_else_of_the_network_changes():
    tasks = [facts(seed) for seed in range(3)]
    one, other = learn(forked(), Ridge(0.2), tasks), learn(forked(), Ridge(0.2), tasks[::-1])
    for (name, ours), (_, theirs) in zip(one.named_parameters(), other.named_parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
        if not name.startswith("fork"):
            assert torch.equal(ours, dict(forked().named_parameters())[name])


def test_a_unit_that_no_fact_had_yet_stays_as_it_was():
    inputs, targets = facts(0)
    targets[:, 2] = float("nan")
    module = learn(forked(), Ridge(0.2), [(inputs, targets)])
    assert torch.equal(module.fork[2].weight, forked().fork[2].weight)


def test_it_learns_without_gradient_steps():
    assert Ridge(0.2).epochs(8) == 0


def test_what_has_no_closed_form_is_refused():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, inputs):
            return self.linear(inputs).relu()

    def task(module, batches, **about):
        learner = Learner(module, torch.optim.SGD(module.parameters(), lr=1.0), 0, batches, **about)
        strategy = Ridge(0.2)
        strategy.before_task(learner)
        strategy.after_task(learner)

    inputs, targets = torch.randn(4, 3), torch.randn(4, 2)
    with pytest.raises(ModelError, match="needs targets"):
        task(nn.Linear(3, 2), [inputs])
    with pytest.raises(ModelError, match="last linear layers"):
        task(Scaled(), [(inputs, targets)])
    with pytest.raises(ModelError, match="with a bias"):
        task(nn.Linear(3, 2, bias=False), [(inputs, targets)])


def test_identical_features_raise_a_readable_error():
    module = nn.Linear(3, 2)
    learner = Learner(module, torch.optim.SGD(module.parameters(), lr=1.0), 0, [(torch.zeros(4, 3), torch.randn(4, 2))])
    with pytest.raises(ModelError, match="increase strategy"):
        Ridge(0.2).after_task(learner)


def test_solving_leaves_the_sums_as_they_are():
    module, strategy = forked().double(), Ridge(0.2)
    inputs, targets = facts(0)
    learn(module, strategy, [(inputs.double(), targets.double())])
    features = torch.cat([module.features(inputs.double()), torch.ones(len(inputs), 1)], dim=1).detach()
    torch.testing.assert_close(strategy.sums.moments().gram, features.T @ features, rtol=1e-6, atol=1e-6)


class Headed(nn.Module):
    """A small network with one head of scores per task, and a temperature, as the posterior readout has."""

    def __init__(self, widths=(3, 2, 4)):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(30, 12), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(12, width) for width in widths)
        self.register_buffer("temperature", torch.ones(()))
        self.open = len(widths)

    def forward(self, inputs):
        features = self.features(inputs)
        return [head(features) for head in self.heads[: self.open]]


def classes(seed, width, samples=40):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(samples, 30, generator=generator), torch.randint(width, (samples,), generator=generator)


def learn_heads(order, strategy):
    """Learn the heads' tasks in an order; the weights and bias of all heads, by task."""
    torch.manual_seed(0)
    module = Headed(tuple((3, 2, 4)[task] for task in order)).eval()
    torch.manual_seed(1)
    for layer in module.features:
        if isinstance(layer, nn.Linear):
            layer.reset_parameters()
    for number, task in enumerate(order):
        module.open = number + 1
        data = classes(task, (3, 2, 4)[task])
        start = sum((3, 2, 4)[before] for before in order[:number])
        batches = list(zip(*(each.split(7) for each in (*data, data[1] + start)), strict=True))
        learner = Learner(
            module, torch.optim.SGD(module.parameters(), lr=1.0), number, batches, output="scores", head=["its own"]
        )
        strategy.after_task(learner)
    return module, {task: module.heads[place] for place, task in enumerate(order)}


def indicators(module):
    """Features of all tasks' images, and the indicators of their classes, tasks in order."""
    inputs = torch.cat([classes(task, width)[0] for task, width in enumerate((3, 2, 4))])
    labels = torch.cat([classes(task, w)[1] + start for task, (w, start) in enumerate(((3, 0), (2, 3), (4, 5)))])
    features = module.features(inputs).detach().double().numpy()
    return features, np.eye(9)[labels.numpy()]


def test_heads_of_scores_are_ridge_regression_on_indicators_of_all_tasks():
    module, heads = learn_heads((0, 1, 2), Ridge(0.3))
    features, wanted = indicators(module)
    reference = Reference(alpha=0.3 * (features**2).sum() / len(features)).fit(features, wanted)
    found = torch.cat([heads[task].weight for task in range(3)]).detach().numpy()
    np.testing.assert_allclose(found, reference.coef_, atol=1e-4)
    bias = torch.cat([heads[task].bias for task in range(3)]).detach().numpy()
    np.testing.assert_allclose(bias, reference.intercept_, atol=1e-4)


def test_the_order_of_tasks_does_not_matter_to_heads_of_scores():
    _, one = learn_heads((0, 1, 2), Ridge("auto"))
    _, other = learn_heads((2, 0, 1), Ridge("auto"))
    for task in range(3):
        torch.testing.assert_close(one[task].weight, other[task].weight, rtol=1e-3, atol=1e-5)


def test_the_shrinkage_found_has_the_least_generalised_cross_validation_error():
    strategy = Ridge("auto")
    module, _ = learn_heads((0, 1, 2), strategy)
    features, wanted = indicators(module)
    rows = np.hstack([features, np.ones((len(features), 1))])
    unit = (features**2).sum() / len(features)

    def error(shrinkage):
        penalty = np.diag([*[shrinkage * unit] * features.shape[1], 0.0])
        hat = rows @ np.linalg.solve(rows.T @ rows + penalty, rows.T)
        return ((wanted - hat @ wanted) ** 2).sum() / (len(rows) - np.trace(hat)) ** 2

    assert solve(strategy.sums.moments(), torch.eye(9), "auto").shrinkage == pytest.approx(min(SHRINKAGES, key=error))


def test_the_shrinkage_of_vectors_is_found_too():
    tasks = [facts(seed) for seed in range(3)]
    module, strategy = forked(), Ridge("auto")
    learn(module, strategy, tasks)
    found = [
        solve(strategy.sums.moments(unit.isfinite().all(1)), unit.nan_to_num(), "auto").shrinkage
        for unit in strategy.targets.split(DIMENSION, dim=1)
    ]
    inputs, targets = (torch.cat(each) for each in zip(*tasks, strict=True))
    features = module.features(inputs).detach().double().numpy()
    for unit, shrinkage in enumerate(found):
        known = targets[:, unit].isfinite().all(1).numpy()
        rows = np.hstack([features[known], np.ones((known.sum(), 1))])
        wanted, size = targets[known, unit].double().numpy(), np.square(features[known]).sum(1).mean()

        def error(value, rows=rows, wanted=wanted, size=size):
            hat = rows @ np.linalg.solve(rows.T @ rows + np.diag([*[value * size] * 20, 0.0]), rows.T)
            return ((wanted - hat @ wanted) ** 2).sum() / (len(rows) - np.trace(hat)) ** 2

        assert shrinkage == pytest.approx(min(SHRINKAGES, key=error))


def test_the_temperature_is_that_of_the_likelihood_without_each_image():
    strategy = Ridge(0.3)
    module, _ = learn_heads((0,), strategy)
    inputs, labels = classes(0, 3)
    features = module.features(inputs).detach().double().numpy()
    wanted = np.eye(3)[labels.numpy()]
    left_out = []
    unit = (features**2).sum() / len(features)
    for place in range(len(features)):
        kept = np.arange(len(features)) != place
        reference = Reference(alpha=0.3 * unit).fit(features[kept], wanted[kept])
        left_out.append(reference.predict(features[place : place + 1])[0])
    scores = torch.tensor(np.array(left_out))
    losses = [float(F.cross_entropy(scores / value, labels, reduction="sum")) for value in TEMPERATURES]
    np.testing.assert_allclose(strategy.unlikely.sum(0).numpy(), losses, rtol=1e-3)
    assert float(module.temperature) == pytest.approx(TEMPERATURES[int(np.argmin(losses))])


def test_memory_grows_with_labels_by_one_row_each_and_not_with_images():
    strategy = Ridge(0.3)
    sizes = []
    for order in ((0,), (0,), (0, 1)):
        learn_heads(order, strategy)
        sizes.append(strategy.memory().stored_bytes)
    row = 8 * (12 + 1 + 1 + len(TEMPERATURES))  # the sum of its features, count, group and likelihoods
    assert sizes[1] == sizes[0]
    assert sizes[2] == sizes[0] + 2 * row
