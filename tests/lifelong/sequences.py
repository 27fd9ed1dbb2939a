"""Short sequences of random tasks, learned as the training loop does and interrupted where a test asks for it."""

import torch
import torch.nn.functional as F
from safetensors.torch import load, save
from torch import nn

from factlearn.lifelong.registry import METHODS, make_strategy
from factlearn.lifelong.strategy import Learner

STEPS = 30
SETTINGS = {"ebll": {"code_size": 5, "autoencoder_epochs": 5}}


def strategy_named(name, **settings):
    return make_strategy(METHODS.find(name).config.model_validate({**SETTINGS.get(name, {}), **settings}))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 4))


def random_tasks(count, output="embedding"):
    generator = torch.Generator().manual_seed(1)
    tasks = []
    for _ in range(count):
        inputs = torch.randn(32, 6, generator=generator)
        labels = torch.randint(4, (32,), generator=generator)
        tasks.append((inputs, labels if output == "scores" else torch.randn(32, 4, generator=generator)))
    return tasks


def loss_of(outputs, targets, output):
    return F.cross_entropy(outputs, targets) if output == "scores" else (outputs - targets).square().sum(1).mean()


def begin(module, strategy, task, data, output, **about):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    batches = list(zip(*(each.split(8) for each in data), strict=True))
    learner = Learner(module, optimizer, task, batches, output=output, **about)
    strategy.before_task(learner)
    return learner


def step(learner, strategy, data):
    inputs, targets = data
    outputs = learner.module(inputs)
    loss = loss_of(outputs, targets, learner.output)
    extra = strategy.extra_loss(learner, inputs, outputs)
    (loss if extra is None else loss + extra).backward()
    strategy.after_backward(learner)
    learner.optimizer.step()
    learner.optimizer.zero_grad()
    strategy.after_step(learner)


def through_a_file(tensors):
    """Tensors as read back from a checkpoint: the same values in other storage."""
    return load(save({name: tensor.detach().clone() for name, tensor in tensors.items()}))


def interrupted(module, learner, strategy, make):
    """A module, optimizer and strategy in other storage, as a new process would load them."""
    other, fresh = network(), make()
    other.load_state_dict(through_a_file(module.state_dict()))
    fresh.load_state(through_a_file(strategy.state()))
    return other, learner.optimizer.state_dict(), fresh


def learn_sequence(make, tasks=3, output="embedding", stop=None, watch=None):
    """The module and strategy after a sequence; `stop` is a (task, step) at which it is interrupted and resumed."""
    data = random_tasks(tasks, output)
    module, strategy = network(), make()
    for task, each in enumerate(data):
        learner = begin(module, strategy, task, each, output)
        for number in range(strategy.epochs(STEPS)):
            if stop == (task, number):
                module, momentum, strategy = interrupted(module, learner, strategy, make)
                learner = begin(module, strategy, task, each, output)
                learner.optimizer.load_state_dict(momentum)
            step(learner, strategy, each)
        if stop == (task, "end"):
            module, momentum, strategy = interrupted(module, learner, strategy, make)
            learner = begin(module, strategy, task, each, output)
        if watch:
            watch(task, "training", learner, strategy)
        strategy.after_task(learner)
        if watch:
            watch(task, "stored", learner, strategy)
    strategy.after_sequence(learner)
    return module, strategy


def losses(module, tasks=3, output="embedding"):
    with torch.no_grad():
        return [loss_of(module(inputs), targets, output).item() for inputs, targets in random_tasks(tasks, output)]
