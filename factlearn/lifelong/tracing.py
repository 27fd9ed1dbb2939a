"""Watches a forward pass for the layers that use measured parameters, and taps the gradient at their outputs.

Watching the torch functions a parameter is passed to, not the modules it lives in, makes the question "is this
layer one whose formula we know?" safe: a shared weight, a functional call or a parametrization is seen as what it
is, and a parameter used in any way not known is reported as `general`, to be measured without formulas.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from factlearn.lifelong.per_sample import BATCH_FIRST, Layer


class SamplesMixed(Exception):
    """The forward pass computes across samples, so that only batches of one sample have a per-sample gradient."""


class _Tap(torch.autograd.Function):
    """Identity on a layer's output, in place; its backward hands the output's gradient to the layer.

    `anchor` makes the output need a gradient though no parameter does: the graph starts at the first measured layer,
    and nothing before it costs memory or time.
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
        layers: the layers that used measured parameters, in the order of the forward pass.
        general: names of measured parameters used in a way no formula covers.
        anchor: the leaf every tapped output hangs on.
    """

    def __init__(
        self, parameters: Mapping[str, Tensor], samples: int, receive: Callable[[Layer, Tensor], None]
    ):
        super().__init__()
        self._names = {id(parameter): name for name, parameter in parameters.items()}
        self._samples = samples
        self._receive = receive
        self.layers: list[Layer] = []
        self.general: set[str] = set()
        self.anchor = torch.zeros((), requires_grad=True)

    @property
    def uses(self) -> Counter[str]:
        """How often each parameter was used."""
        return Counter(name for layer in self.layers for name in layer.measured)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.batch_norm and kwargs.get("training") and self._samples > 1:
            raise SamplesMixed
        measured = {self._names[id(each)]: each for each in _tensors(args, kwargs) if id(each) in self._names}
        if not measured or not torch.is_grad_enabled():
            return func(*args, **kwargs)
        if func not in BATCH_FIRST:
            result = func(*args, **kwargs)
            if isinstance(result, Tensor) or _has_tensor(result):
                self.general |= measured.keys()
            return result
        layer = Layer(func, args, kwargs, measured)
        if layer.input.dim() < 2 or len(layer.input) != self._samples:
            self.general |= measured.keys()
            return func(*args, **kwargs)
        return self._tapped(layer)

    def _tapped(self, layer: Layer) -> Tensor:
        self.layers.append(layer)
        layer_input = layer.input
        if layer.function is F.linear and layer_input.dim() > 2:
            flat = F.linear(layer_input.flatten(0, -2), layer.named["weight"], layer.named.get("bias"))
            shape = (*layer_input.shape[:-1], flat.shape[-1])
            tapped: Tensor = _Tap.apply(
                self.anchor, flat, lambda delta: self._receive(layer, delta.view(shape))
            )
            return tapped.view(shape)
        output: Tensor = layer.function(*layer.arguments, **layer.options)
        if output._is_view():  # a view changed in place would leave the tap's node out of the graph
            output = output.clone()
        tapped = _Tap.apply(self.anchor, output, lambda delta: self._receive(layer, delta))
        return tapped


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterable[Tensor]:
    for each in (*args, *kwargs.values()):
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, list | tuple):
            yield from (inner for inner in each if isinstance(inner, Tensor))


def _has_tensor(result: Any) -> bool:
    return isinstance(result, list | tuple) and any(isinstance(each, Tensor) for each in result)
