"""Agreement with Avalanche where it is right: same network, data order and lambda, the same penalties step by step.

Avalanche takes the absolute value (MAS) or the square (EWC) of a *batch's* gradient. With batches of one image that is
the definition. For MAS the batch form itself is compared as well: a batch is handed to our engine as one sample.

Install `avalanche-lib` with the project's constraints.txt, or pip replaces torch; without it these tests are skipped.
"""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from factlearn.lifelong.ewc import EWC
from factlearn.lifelong.importance import estimate
from factlearn.lifelong.mas import MAS
from factlearn.lifelong.strategy import Learner
from factlearn.models.vision import torchvision  # noqa: F401 - Avalanche imports torchvision; this door makes that work

pytestmark = pytest.mark.slow
avalanche = pytest.importorskip("avalanche", exc_type=ImportError)

EPOCHS, LAMBDA = 2, 3.0
RATES = {1: 0.02, 8: 0.2}  # by the size of batches


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4))


def tasks(count=3):
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(24, 10, generator=generator), torch.randint(4, (24,), generator=generator)) for _ in range(count)
    ]


class Watch:
    """Wraps a plugin's penalty: what it adds to the loss at each step."""

    def __init__(self, plugin):
        self.plugin, self.seen = plugin, []
        self.add, plugin.before_backward = plugin.before_backward, self.look

    def look(self, strategy, **kwargs):
        before = strategy.loss.detach().clone()
        self.add(strategy, **kwargs)
        self.seen.append(float(strategy.loss.detach() - before))


def theirs(plugin, batch, count):
    """Penalties at every step of every task, as Avalanche trains."""
    from avalanche.benchmarks import benchmark_from_datasets
    from avalanche.benchmarks.utils import as_classification_dataset
    from avalanche.evaluation.metrics import loss_metrics
    from avalanche.training.plugins import EvaluationPlugin
    from avalanche.training.templates import SupervisedTemplate
    from torch.utils.data import TensorDataset

    sets = []
    for inputs, labels in tasks(count):
        data = TensorDataset(inputs, labels)
        data.targets = labels.tolist()
        sets.append(as_classification_dataset(data))
    model = network()
    watch = Watch(plugin)
    strategy = SupervisedTemplate(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=RATES[batch]),
        criterion=nn.CrossEntropyLoss(),
        train_mb_size=batch,
        train_epochs=EPOCHS,
        plugins=[plugin],
        evaluator=EvaluationPlugin(loss_metrics(minibatch=False), loggers=[]),
    )
    for experience in benchmark_from_datasets(train=sets).train_stream:
        strategy.train(experience, shuffle=False, num_workers=0)
    return torch.tensor(watch.seen), model


class BatchAsSample(nn.Module):
    """A row is a whole batch, its output the batch's outputs scaled so that the squared norm is their mean."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, batches):
        return (self.module(batches) / batches.shape[1] ** 0.5).flatten(1)


class BatchMAS(MAS):
    def measure(self, learner):
        wrapped = BatchAsSample(learner.module)
        omega = estimate(wrapped, [batch[0].unsqueeze(0) for batch in learner.inputs]).mean()
        return {name.removeprefix("module."): value for name, value in omega.items()}


def ours(strategy, batch, count):
    """The same in our loop, with the penalty in its gradient form."""
    module, seen = network(), []
    for number, (inputs, labels) in enumerate(tasks(count)):
        optimizer = torch.optim.SGD(module.parameters(), lr=RATES[batch])
        batches = list(zip(inputs.split(batch), labels.split(batch), strict=True))
        learner = Learner(module, optimizer, number, batches, output="scores")
        strategy.before_task(learner)
        for _ in range(EPOCHS):
            for rows, answers in batches:
                seen.append(strategy._penalty.value(learner))
                F.cross_entropy(module(rows), answers).backward()
                strategy.after_backward(learner)
                optimizer.step()
                optimizer.zero_grad()
                strategy.after_step(learner)
        strategy.after_task(learner)
    return torch.tensor(seen), module


def agree(one, other):
    penalties, module = one
    expected, their_module = other
    assert len(penalties) == len(expected)
    assert expected.max() > 1e-3
    torch.testing.assert_close(penalties, expected, rtol=1e-5, atol=1e-5)
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(parameter, their_module.get_parameter(name), rtol=1e-5, atol=1e-5)


def test_ewc_penalties_agree_step_by_step_over_three_tasks():
    from avalanche.training.plugins import EWCPlugin

    # Ours sums Fishers around the last solution; so does theirs online without decay.
    plugin = EWCPlugin(LAMBDA, mode="online", decay_factor=1.0)
    agree(ours(EWC(LAMBDA, "gradient", "empirical"), 1, 3), theirs(plugin, 1, 3))


def test_mas_penalties_agree_step_by_step_with_batches_of_one():
    from avalanche.training.plugins import MASPlugin

    # From the third task on theirs is a running mean and ours a sum; two tasks show the penalty itself.
    agree(ours(MAS(LAMBDA, "gradient"), 1, 2), theirs(MASPlugin(LAMBDA), 1, 2))


def test_mas_penalties_agree_in_the_batch_absolute_form():
    from avalanche.training.plugins import MASPlugin

    agree(ours(BatchMAS(LAMBDA, "gradient"), 8, 2), theirs(MASPlugin(LAMBDA), 8, 2))


def test_the_batch_form_underestimates_the_definition():
    module, (inputs, _) = network(), tasks(1)[0]
    exact = estimate(module, [inputs]).mean()
    batch = estimate(BatchAsSample(copy.deepcopy(module)), [inputs.unsqueeze(0)]).mean()
    total = sum(float(value.sum()) for value in exact.values())
    assert sum(float(value.sum()) for value in batch.values()) < 0.95 * total
