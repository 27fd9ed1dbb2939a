"""The weight gradient of a convolution for each sample of a batch, not summed over the batch.

All samples go through one call: side by side as groups of one wide convolution, so that group k's weight gradient is
sample k's.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_WEIGHT_GRADIENT = {
    1: torch.nn.grad.conv1d_weight,
    2: torch.nn.grad.conv2d_weight,
    3: torch.nn.grad.conv3d_weight,
}


def weight_gradients(inputs: Tensor, delta: Tensor, shape: torch.Size, options: Mapping[str, Any]) -> Tensor:
    """The gradient of a convolution's weight for each sample: `[samples, *shape]`.

    `options` are the convolution's stride, padding, dilation and groups as `torch.nn.functional.conv2d` takes them.
    """
    spatial = inputs.dim() - 2
    stride, dilation, groups = (options.get(key, 1) for key in ("stride", "dilation", "groups"))
    padding = options.get("padding", 0)
    if isinstance(padding, str):
        inputs = F.pad(inputs, _padding_of_name(padding, shape, dilation, spatial))
        padding = 0
    samples, out_channels = len(inputs), shape[0]
    wide: Tensor = _WEIGHT_GRADIENT[spatial](
        inputs.reshape(1, -1, *inputs.shape[2:]),
        [samples * out_channels, *shape[1:]],
        delta.reshape(1, -1, *delta.shape[2:]),
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=samples * groups,
    )
    return wide.view(samples, *shape)


def _padding_of_name(
    name: str, shape: torch.Size, dilation: int | tuple[int, ...], spatial: int
) -> list[int]:
    """The zeros `padding="same"` puts before and after each axis, last axis first, as `F.pad` wants them."""
    if name == "valid":
        return [0] * (2 * spatial)
    dilations = (
        (dilation,) * spatial if isinstance(dilation, int) else tuple(dilation) * (spatial // len(dilation))
    )
    sides: list[int] = []
    for kernel, step in reversed(list(zip(shape[2:], dilations, strict=True))):
        total = step * (kernel - 1)
        sides += [total // 2, total - total // 2]
    return sides
