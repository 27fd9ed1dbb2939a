"""What is measured: a measure turns the network's outputs into the gradients to send back through it.

A measure gives *seeds*, gradients at the output, each sent through one backward pass; every sample's parameter
gradient is made non-negative (absolute value or square) and added up. Sample k never sees sample j's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor

Reduction = Literal["absolute", "square"]


class Measure(Protocol):
    """A way to read importance off a network's output."""

    reduction: ClassVar[Reduction]

    def seeds(self, output: Tensor, target: Tensor | None) -> Iterator[Tensor]:
        """Gradients at `output`, which is flat: `[samples, values]`."""


@dataclass(frozen=True)
class SquaredNorm:
    """Memory Aware Synapses, eq. 2: the gradient of the output's squared l2 norm."""

    reduction: ClassVar[Reduction] = "absolute"

    def seeds(self, output: Tensor, target: Tensor | None) -> Iterator[Tensor]:
        """One seed: the gradient of `||F(x)||^2` is `2 F(x)`."""
        yield 2 * output


@dataclass(frozen=True)
class EveryOutput:
    """Memory Aware Synapses with the vector output: every output's own gradient, absolute, added (section 4.1)."""

    reduction: ClassVar[Reduction] = "absolute"

    def seeds(self, output: Tensor, target: Tensor | None) -> Iterator[Tensor]:
        """As many seeds as there are outputs."""
        for index in range(output.shape[1]):
            seed = torch.zeros_like(output)
            seed[:, index] = 1
            yield seed


MEASURES: dict[str, Measure] = {"mas": SquaredNorm(), "mas-vector": EveryOutput()}
