"""Each sample's own gradient of one layer's parameters, from the layer's input and its output's gradient.

A layer is one call of a torch function that takes parameters: `linear`, `conv2d`, `batch_norm`, ... One backward pass
gives the gradient at its output (delta) for every sample at once, since in eval mode samples do not interact. From
there a sample's parameter gradient depends on that layer alone:

* Linear: `delta_k^T a_k`, an outer product if the layer's input is one vector per sample;
* convolution: the correlation of `a_k` with `delta_k` (`convolution.py`);
* any other layer: its vector-Jacobian product by `torch.func`, mapped over the samples.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from factlearn.errors import ModelError
from factlearn.lifelong.gradients import convolution

CONVOLUTIONS: set[Callable[..., Any]] = {F.conv1d, F.conv2d, F.conv3d}
_CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")

# Functions whose input and result have one sample per row, with the names of those positional arguments that matter
# here. A parameter passed to any other function takes the general path.
BATCH_FIRST: dict[Callable[..., Any], tuple[str, ...]] = {
    F.linear: ("input", "weight", "bias"),
    F.conv1d: _CONVOLUTION,
    F.conv2d: _CONVOLUTION,
    F.conv3d: _CONVOLUTION,
    F.conv_transpose1d: ("input", "weight", "bias"),
    F.conv_transpose2d: ("input", "weight", "bias"),
    F.conv_transpose3d: ("input", "weight", "bias"),
    F.batch_norm: ("input",),
    F.layer_norm: ("input",),
    F.group_norm: ("input",),
    F.instance_norm: ("input",),
    F.rms_norm: ("input",),
    F.prelu: ("input", "weight"),
    F.embedding: ("input", "weight"),
}
# Those that would also accept samples on another axis.
ANY_AXES: set[Callable[..., Any]] = {F.linear, F.layer_norm, F.rms_norm, F.embedding}
CHUNK_BYTES = 64 * 2**20


@dataclass(eq=False)
class Layer:
    """One call of a layer in the forward pass.

    Attributes:
        function, arguments, options: the call, with its input detached from any graph.
        measured: the parameters in the call whose importance is measured, by name.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    measured: dict[str, Tensor]
    named: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        if self.arguments:
            self.arguments = (self.arguments[0].detach(), *self.arguments[1:])
        else:
            self.options = self.options | {"input": self.options["input"].detach()}
        self.named = dict(zip(BATCH_FIRST[self.function], self.arguments, strict=False)) | self.options
        self._version = self.input._version

    @property
    def input(self) -> Tensor:
        """The layer's input, one sample per row."""
        value: Tensor = self.named["input"]
        return value

    def release(self) -> None:
        """Release the input, once every gradient has been computed."""
        self.named, self.arguments, self.options = {}, (), {}

    def check(self) -> None:
        """Raise if the layer's input was overwritten after the layer used it."""
        if self.input._version != self._version:
            name = next(iter(self.measured))
            raise ModelError(
                f"The input of the layer with {name!r} was changed in place after use; change a copy instead."
            )

    def sums_in_one_product(self, name: str) -> bool:
        """Whether each sample's gradient is an outer product, so that their sum is a matrix product."""
        return self.function is F.linear and self.input.dim() == 2 and self.measured[name] is self.named["weight"]

    def rows_at_once(self, name: str, delta: Tensor) -> int:
        """How many samples' gradients of parameter `name` are best computed together."""
        parameter = self.measured[name]
        if self.function in CONVOLUTIONS and parameter is self.named["weight"]:
            return convolution.rows_at_once(self.input, delta, parameter.shape, CHUNK_BYTES)
        return max(1, CHUNK_BYTES // (4 * max(1, parameter.numel())))

    def gradients(self, name: str, delta: Tensor, rows: slice) -> Tensor:
        """The gradient of parameter `name` for each sample in `rows`: `[samples, *parameter.shape]`."""
        parameter, inputs, delta = self.measured[name], self.input[rows], delta[rows]
        by_formula = self.function is F.linear or self.function in CONVOLUTIONS
        if by_formula and parameter is self.named.get("bias"):
            return _sum_positions(delta, delta.dim() - 1 if self.function is F.linear else 1)
        if by_formula and parameter is self.named["weight"]:
            if self.function is not F.linear:
                return convolution.weight_gradients(inputs, delta, parameter.shape, self.named)
            if inputs.dim() == 2:
                inputs, delta = inputs.unsqueeze(1), delta.unsqueeze(1)
            return delta.flatten(1, -2).mT @ inputs.flatten(1, -2)
        return self._by_torch_func(parameter, inputs, delta)

    def _by_torch_func(self, parameter: Tensor, inputs: Tensor, delta: Tensor) -> Tensor:
        def call(value: Tensor, row: Tensor) -> Tensor:
            given = [value if each is parameter else each for each in self.arguments]
            options = {key: value if each is parameter else each for key, each in self.options.items()}
            if given:
                given[0] = row.unsqueeze(0)
            else:
                options["input"] = row.unsqueeze(0)
            result: Tensor = self.function(*given, **options)
            return result.squeeze(0)

        def pull(row: Tensor, row_delta: Tensor) -> Tensor:
            _, vjp, *_ = torch.func.vjp(lambda value: call(value, row), parameter)
            gradient: Tensor = vjp(row_delta)[0]
            return gradient

        mapped: Tensor = torch.func.vmap(pull)(inputs, delta)
        return mapped


def _sum_positions(delta: Tensor, channel: int) -> Tensor:
    axes = [axis for axis in range(1, delta.dim()) if axis != channel]
    return delta.sum(axes) if axes else delta.clone()
