"""EfficientNet-Lite0 (Tan and Le, ICML 2019; the Lite variant has ReLU6 and no squeeze-and-excitation).

    stem 3x3/2 -> 7 stages of inverted bottlenecks -> head 1x1 to 1,280 channels

Convolutions are padded as TensorFlow does, at the end first, which matters for stride 2.
"""

import torch.nn.functional as F
from torch import Tensor, nn

_EPSILON = 1e-3
_STAGES = (
    # expansion, channels, repeats, stride, kernel
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)


class SameConv2d(nn.Conv2d):
    """A convolution whose output is its input's size divided by the stride, rounded up."""

    def forward(self, input: Tensor) -> Tensor:
        """Pad and convolve."""
        pads = []
        for size, kernel, stride in zip(input.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], strict=True):
            extra = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [extra // 2, extra - extra // 2]
        return super().forward(F.pad(input, pads))


def _unit(channels: int, out: int, kernel: int, stride: int = 1, *, depthwise: bool = False) -> list[nn.Module]:
    groups = channels if depthwise else 1
    convolution = SameConv2d(channels, out, kernel, stride, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(out, eps=_EPSILON)]


class Bottleneck(nn.Module):
    """Expand, convolve each channel by itself, project; the input is added where the shape stays."""

    def __init__(self, channels: int, out: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        wide = channels * expansion
        layers = [*_unit(channels, wide, 1), nn.ReLU6()] if expansion > 1 else []
        layers += [*_unit(wide, wide, kernel, stride, depthwise=True), nn.ReLU6(), *_unit(wide, out, 1)]
        self.layers = nn.Sequential(*layers)
        self.adds = stride == 1 and channels == out

    def forward(self, features: Tensor) -> Tensor:
        """Features to features."""
        found: Tensor = self.layers(features)
        return found + features if self.adds else found


def efficientnet_lite0() -> list[nn.Module]:
    """The network as nine layers: the stem, seven stages, the head."""
    channels = 32
    layers: list[nn.Module] = [nn.Sequential(*_unit(3, channels, 3, 2), nn.ReLU6())]
    for expansion, out, repeats, stride, kernel in _STAGES:
        stage = []
        for repeat in range(repeats):
            stage.append(Bottleneck(channels, out, expansion, kernel, stride if repeat == 0 else 1))
            channels = out
        layers.append(nn.Sequential(*stage))
    layers.append(nn.Sequential(*_unit(channels, 1280, 1), nn.ReLU6()))
    return layers
