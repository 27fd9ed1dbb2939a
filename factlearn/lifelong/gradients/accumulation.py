"""Makes each sample's gradient non-negative and adds it to the sum over samples."""

from collections import Counter
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from factlearn.lifelong.gradients.layers import Layer

Reduction = Literal["absolute", "square"]


def reduced_(gradients: Tensor, reduction: Reduction) -> Tensor:
    """Absolute values or squares, in place."""
    return gradients.abs_() if reduction == "absolute" else gradients.square_()


def _reduced(values: Tensor, reduction: Reduction) -> Tensor:
    return values.abs() if reduction == "absolute" else values.square()


class Accumulator:
    """Receives layers with the gradient at their output as backward reaches them.

    A parameter used once is added immediately; for a shared parameter the gradients of all its uses are added, sample
    by sample, before they are made non-negative. Where the sum over samples is one product of the output's gradients
    with the inputs, the gradients of all passes are added first and multiplied once.

    Attributes:
        uses: how often each parameter is used; set before the first layer is received.
        last_pass: whether layers are no longer needed after this backward pass and can be released.
    """

    def __init__(self, sums: Mapping[str, Tensor], reduction: Reduction) -> None:
        self.sums = sums
        self.reduction = reduction
        self.uses: Counter[str] = Counter()
        self.last_pass = False
        self._waiting: dict[str, list[tuple[Layer, Tensor]]] = {}
        self._outer: dict[str, tuple[Layer, Tensor]] = {}

    def receive(self, layer: Layer, delta: Tensor) -> None:
        """Add the gradient at one layer's output."""
        layer.check()
        for name in layer.measured:
            if self.uses[name] == 1:
                self._add(name, [(layer, delta)])
            elif self.uses[name] > 1:
                self._waiting.setdefault(name, []).append((layer, delta))
        if self.last_pass and not any(self.uses[name] > 1 for name in layer.measured):
            layer.release()

    def finish(self) -> None:
        """Add what shared parameters have collected; after the last pass, also what that pass did not reach."""
        for name, received in self._waiting.items():
            self._add(name, received)
        self._waiting.clear()
        if self.last_pass:
            for name in list(self._outer):
                self._multiply(name)

    @torch.no_grad()
    def _add(self, name: str, received: list[tuple[Layer, Tensor]]) -> None:
        total, (layer, delta) = self.sums[name], received[0]
        if len(received) == 1 and layer.sums_in_one_product(name):
            outputs = _reduced(delta.to(total.dtype), self.reduction)
            self._outer[name] = (layer, self._outer[name][1].add_(outputs) if name in self._outer else outputs)
            if self.last_pass:
                self._multiply(name)
            return
        step = min(layer.rows_at_once(name, delta) for layer, delta in received)
        parts: list[Tensor] = []
        for begin in range(0, len(delta), step):
            rows = slice(begin, begin + step)
            gradients = layer.gradients(name, delta, rows).to(total.dtype)
            for other, other_delta in received[1:]:
                gradients = gradients + other.gradients(name, other_delta, rows)
            gradients = reduced_(gradients, self.reduction)
            found = gradients.sum(0) if len(gradients) > 1 else gradients[0]
            # Added to the first part, not to the total, whose memory layout may differ from theirs.
            parts = [parts[0].add_(found)] if parts else [found]
        total += parts[0]

    @torch.no_grad()
    def _multiply(self, name: str) -> None:
        layer, outputs = self._outer.pop(name)
        total = self.sums[name]
        total.addmm_(outputs.T, _reduced(layer.input.to(total.dtype), self.reduction))
