"""The weight gradient of a convolution for each sample of a batch, not summed over the batch.

There are three ways to compute the same numbers, each fastest somewhere (measured on a CPU, per sample against the
batch's own weight gradient):

* wide: samples side by side as groups of one convolution; for small layers, where separate calls would cost more;
* columns: `delta_k @ unfold(a_k)^T`; for few output positions, and for 1x1 kernels, which need no unfolding;
* single: the library's own weight gradient of one sample; for everything else, where unfolding would cost more in
  memory traffic than it saves in arithmetic.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SMALL_WEIGHT = 2**15
LITTLE_WORK = 2**24
FEW_POSITIONS = 64


def rows_at_once(inputs: Tensor, delta: Tensor, shape: torch.Size, budget: int) -> int:
    """How many samples to pass to `weight_gradients` in one call, using at most `budget` bytes for them."""
    positions = delta.shape[2:].numel()
    if inputs.device.type != "cpu":
        columns = inputs.shape[1] * shape[2:].numel() * positions
        return max(1, budget // (4 * max(shape.numel(), columns)))
    if shape.numel() > SMALL_WEIGHT or shape.numel() * positions > LITTLE_WORK:
        return 1
    return max(1, budget // (4 * shape.numel()))


def weight_gradients(inputs: Tensor, delta: Tensor, shape: torch.Size, options: Mapping[str, Any]) -> Tensor:
    """The gradient of a convolution's weight for each sample: `[samples, *shape]`.

    `options` are stride, padding, dilation and groups, as `torch.nn.functional.conv2d` takes them.
    """
    spatial = inputs.dim() - 2
    stride, padding, dilation = (
        _per_axis(options.get(key, default), spatial)
        for key, default in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    if isinstance(padding, str):
        inputs, padding = F.pad(inputs, _named_padding(padding, shape, dilation)), (0,) * spatial
    groups, settings = options.get("groups", 1), {"stride": stride, "padding": padding, "dilation": dilation}
    pointwise = shape[2:].numel() == 1 and set(stride) == {1} and set(padding) == {0}
    few = delta.shape[2:].numel() <= FEW_POSITIONS and shape.numel() > SMALL_WEIGHT
    if spatial == 2 and (pointwise or few or inputs.device.type != "cpu"):
        columns = inputs.flatten(2) if pointwise else F.unfold(inputs, tuple(shape[2:]), **settings)
        columns = columns.unflatten(1, (groups, -1))
        gradients: Tensor = delta.flatten(2).unflatten(1, (groups, -1)) @ columns.mT
        return gradients.reshape(-1, *shape)
    wide = _library_gradient(_side_by_side(inputs), _side_by_side(delta), shape, len(inputs), groups, settings)
    return wide.view(len(inputs), *shape) if len(inputs) > 1 else wide.unsqueeze(0)


def _side_by_side(samples: Tensor) -> Tensor:
    """All samples' channels as those of one sample; a single sample keeps its memory layout."""
    return samples if len(samples) == 1 else samples.reshape(1, -1, *samples.shape[2:])


def _library_gradient(
    inputs: Tensor, delta: Tensor, shape: torch.Size, samples: int, groups: int, settings: Mapping[str, Any]
) -> Tensor:
    if shape.numel() > inputs[0].numel():  # the gradient gets the input's memory layout: convert the smaller
        inputs, delta = inputs.contiguous(), delta.contiguous()
    channels_last = inputs.dim() == 4 and not inputs.is_contiguous()
    layout = torch.channels_last if channels_last else torch.contiguous_format
    weight = delta.new_empty((samples * shape[0], *shape[1:])).contiguous(memory_format=layout)  # values are unused
    gradient: Tensor = torch.ops.aten.convolution_backward(
        delta,
        inputs,
        weight,
        None,
        settings["stride"],
        settings["padding"],
        settings["dilation"],
        False,
        [0] * len(settings["stride"]),
        samples * groups,
        [False, True, False],
    )[1]
    return gradient


def _per_axis(value: Any, spatial: int) -> Any:
    """A setting as one number per axis; a named padding stays a name."""
    if isinstance(value, str):
        return value
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * spatial if len(numbers) == 1 else numbers


def _named_padding(name: str, shape: torch.Size, dilation: tuple[int, ...]) -> list[int]:
    """The zeros that "same" adds before and after each axis, last axis first, as `F.pad` expects."""
    sides: list[int] = []
    for kernel, step in reversed(list(zip(shape[2:], dilation, strict=True))):
        total = step * (kernel - 1) if name == "same" else 0
        sides += [total // 2, total - total // 2]
    return sides
