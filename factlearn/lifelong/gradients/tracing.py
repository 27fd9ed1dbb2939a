"""Watches a forward pass for the layers that use measured parameters, and taps the gradient at their outputs.

It watches the torch functions that a parameter is passed to, not the modules that own it. That makes the question "is
this a layer whose formula we know?" safe to answer: a shared weight, a functional call or a parametrization is seen as
what it is, and a parameter used in any other way is reported as `general`, to be measured without formulas.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from factlearn.lifelong.gradients.layers import ANY_AXES, BATCH_FIRST, CONVOLUTIONS, Layer


class SamplesMixed(Exception):
    """The model computes across samples: a sample has its own gradient only if it is alone in the batch."""


class SamplesUnclear(Exception):
    """Two axes of a layer's input have the size of the batch: either could be that of the samples."""


class _Tap(torch.autograd.Function):
    """Identity on a layer's output, in place; its backward passes the output's gradient to the layer.

    `anchor` makes the output require a gradient although no parameter does: the graph starts at the first measured
    layer, and nothing before it costs memory or time.
    """

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, output: Tensor, receive: Callable[[Tensor], None]) -> Tensor:
        ctx.mark_dirty(output)
        ctx.receive = receive
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, None]:
        ctx.receive(gradients[0])
        return None, gradients[0], None


class Trace(TorchFunctionMode):
    """Active around one forward pass of `samples` inputs.

    Attributes:
        uses: how often each measured parameter was used by layers with a formula.
        general: names of measured parameters used in a way that no formula covers.
        anchor: the leaf that every tapped output depends on; backward runs towards it.
    """

    def __init__(
        self, parameters: Mapping[str, Tensor], samples: int, receive: Callable[[Layer, Tensor], None]
    ) -> None:
        super().__init__()
        self._names = {id(parameter): name for name, parameter in parameters.items()}
        self._samples = samples
        self._receive = receive
        self.uses: Counter[str] = Counter()
        self.general: set[str] = set()
        self.anchor = torch.zeros((), requires_grad=True)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.batch_norm and kwargs.get("training") and self._samples > 1:
            raise SamplesMixed
        found = {self._names[id(each)]: each for each in tensors((args, kwargs)) if id(each) in self._names}
        if not found or not torch.is_grad_enabled():
            return self.plain(func, args, kwargs)
        if func in BATCH_FIRST:
            layer = Layer(func, args, kwargs, found)
            if self._has_one_row_per_sample(layer):
                self.uses.update(found.keys())
                return self.tapped(layer, args, kwargs)
        result = func(*args, **kwargs)
        if any(True for _ in tensors(result)):  # reading a shape or a dtype does not use the parameter's value
            self.general |= found.keys()
        return result

    def plain(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function that uses no measured parameter."""
        return func(*args, **kwargs)

    def _has_one_row_per_sample(self, layer: Layer) -> bool:
        shape = layer.input.shape
        if layer.function in CONVOLUTIONS and len(shape) != layer.named["weight"].dim():
            return False
        if len(shape) < (1 if layer.function is F.embedding else 2) or shape[0] != self._samples:
            return False
        free = shape[1:] if layer.function is F.embedding else shape[1:-1]
        if self._samples > 1 and layer.function in ANY_AXES and self._samples in free:
            raise SamplesUnclear
        return True

    def tapped(self, layer: Layer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Call the layer and tap the gradient at its output."""
        output: Tensor
        if layer.function is F.linear and layer.input.dim() > 2:
            inputs = args[0] if args else kwargs["input"]
            output = F.linear(inputs.flatten(0, -2), layer.named["weight"], layer.named.get("bias"))
            shape = (*inputs.shape[:-1], output.shape[-1])
            output = _Tap.apply(self.anchor, output, lambda delta: self._receive(layer, delta.view(shape)))
            return output.view(shape)
        output = layer.function(*args, **kwargs)
        if output._is_view():  # changing a view in place would drop the tap's node from the graph
            output = output.clone()
        output = _Tap.apply(self.anchor, output, lambda delta: self._receive(layer, delta))
        return output


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors(each)
    elif isinstance(value, dict):
        yield from tensors(tuple(value.values()))
