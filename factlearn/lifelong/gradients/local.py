"""Splits a network into its layers, each with the activation that follows: F_l of section 4.3.

A layer's own function extends from its parameters to the first activation after it, through whatever only reshapes,
normalises, pools or drops; if no activation follows, it is the layer's bare output (the last layer, or one whose output
is added to another). Half the gradient of `||F_l||^2` at the layer's output is computed as soon as `F_l` is complete,
by a backward pass over that short stretch alone; for ReLU it is the activation itself, Hebb's rule.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from factlearn.errors import ModelError
from factlearn.lifelong.gradients.layers import Layer
from factlearn.lifelong.gradients.tracing import Trace, tensors

ACTIVATIONS = set(
    """
    relu relu6 leaky_relu prelu rrelu elu selu celu gelu silu mish hardswish hardsigmoid hardtanh threshold
    softplus softsign sigmoid tanh log_sigmoid tanhshrink softshrink hardshrink
    """.split()  # noqa: SIM905
)
TRANSPARENT = set(
    """
    view reshape flatten unflatten squeeze unsqueeze permute transpose contiguous __get__
    dropout dropout1d dropout2d alpha_dropout feature_dropout
    batch_norm layer_norm group_norm instance_norm rms_norm
    max_pool1d max_pool2d avg_pool1d avg_pool2d
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d
    """.split()  # noqa: SIM905
)
_QUESTIONS = {"dim", "size", "numel", "__len__", "is_floating_point", "is_complex", "element_size"}


def _name(function: Any) -> str:
    name = getattr(function, "__name__", "")
    return name if name.startswith("__") else name.strip("_")


@dataclass(eq=False)
class _Stretch:
    """Layers whose function is not complete yet, and the tensors that carry its value so far."""

    layers: list[tuple[Layer, Tensor, int]] = field(default_factory=list)
    carriers: list[Tensor] = field(default_factory=list)


class LocalTrace(Trace):
    """A trace that reports half the gradient of each layer's own squared norm during the forward pass."""

    _open: dict[int, _Stretch]

    def __enter__(self) -> "LocalTrace":
        self._open = {}
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if error[0] is None:
            for stretch in list(self._open.values()):
                self._close_bare(stretch)
        self._open.clear()

    def plain(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Follow layers' outputs through functions without parameters."""
        if _name(func) in _QUESTIONS:
            return func(*args, **kwargs)
        carrying = [self._open[id(each)] for each in tensors((args, kwargs)) if id(each) in self._open]
        if not carrying:
            return func(*args, **kwargs)
        alone = all(each is carrying[0] for each in carrying)
        if alone and _name(func) in ACTIVATIONS:
            return self._close_activated(carrying[0], func(*args, **kwargs))
        if not alone or _name(func) not in TRANSPARENT:
            for stretch in carrying:
                self._close_bare(stretch)
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        if isinstance(result, Tensor):
            self._carry(carrying[0], result)
        return result

    def tapped(self, layer: Layer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Start a stretch at this layer, or continue one through a normalisation with parameters."""
        inputs = args[0] if args else kwargs["input"]
        stretch, name = self._open.get(id(inputs)), _name(layer.function)
        if stretch is None or not (name in TRANSPARENT or name in ACTIVATIONS):
            if stretch is not None:
                self._close_bare(stretch)
            stretch, (args, kwargs) = _Stretch(), (layer.arguments, layer.options)
        output = super().tapped(layer, args, kwargs)
        stretch.layers.append((layer, output, output._version))
        if name in ACTIVATIONS:
            return self._close_activated(stretch, output)
        self._carry(stretch, output)
        return output

    def _carry(self, stretch: _Stretch, tensor: Tensor) -> None:
        stretch.carriers.append(tensor)
        self._open[id(tensor)] = stretch

    def _close_activated(self, stretch: _Stretch, activation: Tensor) -> Tensor:
        self._forget(stretch)
        value = activation.detach()
        torch.autograd.grad(activation, self.anchor, value, allow_unused=True)
        return value

    def _close_bare(self, stretch: _Stretch) -> None:
        self._forget(stretch)
        for layer, output, version in stretch.layers:
            if output._version != version:
                name = next(iter(layer.measured))
                raise ModelError(f"The output of the layer with {name!r} is changed in place; change a copy instead.")
            self._receive(layer, output.detach().clone())  # later operations may overwrite it
        stretch.layers.clear()

    def _forget(self, stretch: _Stretch) -> None:
        for carrier in stretch.carriers:
            self._open.pop(id(carrier), None)
        stretch.carriers.clear()
