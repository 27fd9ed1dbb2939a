"""Each sample's own gradient of one layer's parameters, from the layer's input and the gradient at its output.

A layer is one call of a torch function that takes parameters: `linear`, `conv2d`, `batch_norm`, ... One ordinary
backward pass gives the gradient at its output for every sample at once (nothing mixes samples in eval mode), and
from there a sample's parameter gradient is that layer's business alone:

* Linear: `delta_k^T a_k`, an outer product when the layer sees one vector a sample;
* convolution: the correlation of `a_k` with `delta_k` (`convolution.py`);
* any other layer: its vector-Jacobian product by `torch.func`, mapped over the samples.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from factlearn.lifelong import convolution

# Layers whose first argument and whose result have one sample a row; all other functions take the general path.
BATCH_FIRST: dict[Callable[..., Any], tuple[str, ...]] = {
    F.linear: ("input", "weight", "bias"),
    F.conv1d: ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
    F.conv2d: ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
    F.conv3d: ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
    F.conv_transpose2d: ("input", "weight", "bias"),
    F.batch_norm: ("input",),
    F.layer_norm: ("input",),
    F.group_norm: ("input",),
    F.instance_norm: ("input",),
    F.prelu: ("input", "weight"),
    F.embedding: ("input", "weight"),
}
CONVOLUTIONS = {F.conv1d, F.conv2d, F.conv3d}


@dataclass(eq=False)
class Layer:
    """One call of a layer in the forward pass, with the gradient at its output once backward has reached it."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    measured: dict[str, Tensor]
    delta: Tensor | None = None
    named: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.named = dict(zip(BATCH_FIRST[self.function], self.arguments, strict=False)) | self.options

    @property
    def input(self) -> Tensor:
        """What the layer saw, one sample a row."""
        value: Tensor = self.named["input"]
        return value

    def is_plain_linear(self) -> bool:
        """Whether a sample's weight gradient is an outer product of two vectors."""
        return self.function is F.linear and self.input.dim() == 2

    def gradients(self, name: str, rows: slice) -> Tensor:
        """The gradient of parameter `name` for each sample in `rows`: `[samples, *parameter.shape]`."""
        assert self.delta is not None
        parameter, inputs, delta = self.measured[name], self.input[rows], self.delta[rows]
        if self.function is F.linear or self.function in CONVOLUTIONS:
            channel = -1 if self.function is F.linear else 1
            if parameter is self.named.get("bias"):
                return _sum_positions(delta, channel)
            if parameter is self.named["weight"]:
                if self.function is F.linear:
                    return (
                        delta.flatten(1, -2).mT @ inputs.flatten(1, -2)
                        if inputs.dim() > 2
                        else (delta.unsqueeze(2) * inputs.unsqueeze(1))
                    )
                return convolution.weight_gradients(inputs, delta, parameter.shape, self.named)
        return self._by_torch_func(parameter, inputs, delta)

    def _by_torch_func(self, parameter: Tensor, inputs: Tensor, delta: Tensor) -> Tensor:
        def call(value: Tensor, row: Tensor) -> Tensor:
            swap = lambda given: value if given is parameter else given  # noqa: E731
            arguments = [swap(given) for given in self.arguments]
            options = {key: swap(given) for key, given in self.options.items()}
            if arguments:
                arguments[0] = row.unsqueeze(0)
            else:
                options["input"] = row.unsqueeze(0)
            result: Tensor = self.function(*arguments, **options)
            return result.squeeze(0)

        def pull(row: Tensor, row_delta: Tensor) -> Tensor:
            _, vjp = torch.func.vjp(lambda value: call(value, row), parameter)
            gradient: Tensor = vjp(row_delta)[0]
            return gradient

        mapped: Tensor = torch.func.vmap(pull)(inputs, delta)
        return mapped


def _sum_positions(delta: Tensor, channel: int) -> Tensor:
    axes = [axis for axis in range(1, delta.dim()) if axis != channel % delta.dim()]
    return delta.sum(axes) if axes else delta
