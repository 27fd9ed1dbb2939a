"""The features of a network: the input of the linear layers that produce its outputs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from factlearn.errors import ModelError
from factlearn.lifelong.gradients.forward import ready, split, untouched


def output_layers(module: nn.Module, batch: Any) -> list[str]:
    """Names of the linear layers that read the same input as the last one called: the network's outputs.

    Raises:
        ModelError: if the network calls no linear layer.
    """
    calls: list[tuple[str, Tensor]] = []
    handles = [
        layer.register_forward_pre_hook(lambda _, args, name=name: calls.append((name, args[0])))
        for name, layer in module.named_modules()
        if isinstance(layer, nn.Linear)
    ]
    try:
        with untouched(module), torch.no_grad():
            module(ready(split(batch)[0], module))
    finally:
        for handle in handles:
            handle.remove()
    if not calls:
        raise ModelError(
            "This method reads features at the last linear layer, but this network has none; use LwF or MAS."
        )
    return [name for name, seen in calls if seen is calls[-1][1]]


class FeatureTap:
    """Keeps the last input of a layer."""

    def __init__(self, layer: nn.Module) -> None:
        self._seen: Tensor | None = None
        self._handle = layer.register_forward_pre_hook(self._see)

    def _see(self, layer: nn.Module, args: tuple[Tensor, ...]) -> None:
        self._seen = args[0]

    def take(self) -> Tensor:
        """The features of the last batch, which are then dropped."""
        seen, self._seen = self._seen, None
        if seen is None:
            raise ModelError("No batch has gone through the network since its features were last taken.")
        return seen.flatten(1)

    def remove(self) -> None:
        """Stop watching the layer."""
        self._handle.remove()


@contextmanager
def tapped(layer: nn.Module) -> Iterator[FeatureTap]:
    """A tap that is removed at the end of the block."""
    tap = FeatureTap(layer)
    try:
        yield tap
    finally:
        tap.remove()
