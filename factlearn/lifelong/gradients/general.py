"""Per-sample gradients of parameters used in a way that no formula covers, at the cost of one pass per sample.

The whole model is mapped over samples by `torch.func`, every sample with its own copy of those parameters, so that
autograd keeps their gradients apart. Where a model cannot be mapped (recurrent layers, control flow on values), samples
go through it one by one: the definition itself.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn

from factlearn.lifelong.gradients.forward import flat

CHUNK_BYTES = 256 * 2**20


class GeneralPath:
    """Gradients of some parameters for each sample.

    Attributes:
        can_map: whether the model can be mapped over samples, as far as known.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.can_map = True

    def gradients(
        self, parameters: Mapping[str, Tensor], inputs: Tensor, seeds: list[Tensor]
    ) -> Iterator[tuple[str, Tensor]]:
        """Every parameter's name and its gradients `[samples, *shape]`, once per seed and group of samples."""
        if self.can_map:
            try:  # one sample tells whether mapping works
                first = list(self._mapped(parameters, inputs[:1], [seed[:1] for seed in seeds]))
            except (RuntimeError, NotImplementedError):
                self.can_map = False
            else:
                yield from first
                inputs, seeds = inputs[1:], [seed[1:] for seed in seeds]
        yield from (self._mapped if self.can_map else self._one_by_one)(parameters, inputs, seeds)

    def _mapped(
        self, parameters: Mapping[str, Tensor], inputs: Tensor, seeds: list[Tensor]
    ) -> Iterator[tuple[str, Tensor]]:
        def one(own: dict[str, Tensor], row: Tensor) -> Tensor:
            return flat(torch.func.functional_call(self.model, own, (row.unsqueeze(0),)), 1).squeeze(0)

        size = sum(4 * parameter.numel() for parameter in parameters.values())
        step = max(1, CHUNK_BYTES // size)
        for begin in range(0, len(inputs), step):
            rows = inputs[begin : begin + step]
            copies = {
                name: parameter.detach().expand(len(rows), *parameter.shape).clone().requires_grad_()
                for name, parameter in parameters.items()
            }
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "There is a performance drop")
                output = torch.func.vmap(one, randomness="different")(copies, rows)
            yield from _pulled(output, copies, [seed[begin : begin + step] for seed in seeds], lambda grad: grad)

    def _one_by_one(
        self, parameters: Mapping[str, Tensor], inputs: Tensor, seeds: list[Tensor]
    ) -> Iterator[tuple[str, Tensor]]:
        for index in range(len(inputs)):
            own = {name: parameter.detach().clone().requires_grad_() for name, parameter in parameters.items()}
            output = flat(torch.func.functional_call(self.model, own, (inputs[index : index + 1],)), 1)
            rows = [seed[index : index + 1] for seed in seeds]
            yield from _pulled(output, own, rows, lambda gradient: gradient.unsqueeze(0))


def _pulled(
    output: Tensor, leaves: Mapping[str, Tensor], seeds: list[Tensor], shaped: Callable[[Tensor], Tensor]
) -> Iterator[tuple[str, Tensor]]:
    if not output.requires_grad:
        return
    for seed in seeds:
        found = torch.autograd.grad(output, list(leaves.values()), seed, retain_graph=True, allow_unused=True)
        for name, gradient in zip(leaves, found, strict=True):
            if gradient is not None:
                yield name, shaped(gradient)
