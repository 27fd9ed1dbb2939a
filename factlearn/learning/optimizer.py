"""Stochastic gradient descent as a config describes it: groups, schedule, warm-up, and its momentum kept."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from factlearn.learning.config import TrainingConfig
from factlearn.models.network import TwoPartModel


def make_optimizer(model: TwoPartModel[Any], config: TrainingConfig) -> torch.optim.SGD:
    """SGD with one group for the convolutions and one for the fully connected layers."""
    convolutions = list(model.suffix.convolutions.parameters())
    ids = {id(parameter) for parameter in convolutions}
    heads = [parameter for parameter in model.suffix.parameters() if id(parameter) not in ids]
    groups: list[dict[str, Any]] = [{"params": heads, "scale": config.head_rate}]
    if convolutions:
        groups.append({"params": convolutions, "scale": 1.0})
    return torch.optim.SGD(groups, lr=config.learning_rate, momentum=config.momentum, weight_decay=config.weight_decay)


def set_rate(optimizer: torch.optim.Optimizer, config: TrainingConfig, epoch: int, step: int) -> None:
    """Set the learning rates: the schedule goes by epochs, the warm-up by steps."""
    factor = 1.0
    if config.schedule == "cosine":
        factor = 0.5 * (1 + float(np.cos(np.pi * epoch / config.epochs)))
    elif config.schedule == "step":
        factor = 0.1 ** sum(epoch >= mark for mark in config.step_epochs)
    if step < config.warmup_steps:
        factor *= (step + 1) / config.warmup_steps
    for group in optimizer.param_groups:
        group["lr"] = config.learning_rate * group["scale"] * factor


def momentum_of(optimizer: Any) -> dict[str, Tensor]:
    """SGD's momentum, by the parameters' order."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return {
        str(place): optimizer.state[parameter]["momentum_buffer"]
        for place, parameter in enumerate(parameters)
        if optimizer.state.get(parameter, {}).get("momentum_buffer") is not None
    }


def load_momentum(optimizer: torch.optim.Optimizer, momentum: dict[str, Tensor]) -> None:
    """Take back what `momentum_of` gave."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for name, buffer in momentum.items():
        parameter = parameters[int(name)]
        optimizer.state[parameter]["momentum_buffer"] = buffer.to(parameter.device)
