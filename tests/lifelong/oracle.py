"""The definitions, spelled out one sample at a time: slow, plain, and what the engine must equal."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Omega = dict[str, Tensor]
Scalars = Callable[[Any], list[Tensor]]


def squared_norm(output: Any) -> list[Tensor]:
    """Eq. 2: one scalar per sample, over all tensors that the model returns."""
    if isinstance(output, Tensor):
        return [output.square().sum()]
    values = output.values() if isinstance(output, dict) else output
    return [sum((squared_norm(value)[0] for value in values), torch.zeros(()))]


def loop(model: nn.Module, inputs: Tensor, scalars: Scalars = squared_norm, power: int = 1) -> Omega:
    """Mean over samples of the sum over scalars of |gradient|^power, each sample through the model alone."""
    model = copy.deepcopy(model).eval()
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    omega = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in parameters.items()}
    for row in inputs.split(1):
        for scalar in scalars(model(row)):
            found = torch.autograd.grad(scalar, list(parameters.values()), retain_graph=True, allow_unused=True)
            for total, gradient in zip(omega.values(), found, strict=True):
                if gradient is not None:
                    total.add_(gradient.abs().double() ** power)
    return {name: total / len(inputs) for name, total in omega.items()}


def assert_equal(found: Omega, expected: Omega, relative: float = 1e-5) -> None:
    """Every parameter's importance within `relative` of the expected, as a whole and at its worst.

    A gradient that is zero but for rounding (a bias before a norm) is compared on the network's scale.
    """
    assert found.keys() == expected.keys()
    floor = 1e-3 * max(float(want.abs().max()) for want in expected.values())
    for name, want in expected.items():
        off = found[name].double() - want
        assert off.shape == want.shape
        assert off.norm() <= relative * max(float(want.norm()), floor), f"{name}: off by {off.norm():.1e}"
        largest = max(float(want.abs().max()), floor)
        assert off.abs().max() <= relative * largest, f"{name}: one is off by {off.abs().max():.1e}"
