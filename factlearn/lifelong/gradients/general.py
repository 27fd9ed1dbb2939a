"""Per-sample gradients of parameters used in a way no formula covers, at the cost of a pass for each sample.

The whole model is mapped over samples by `torch.func`, every sample with a copy of those parameters of its
own, so that autograd keeps their gradients apart. Where a model cannot be mapped (recurrent layers, control
flow on values) its samples go through one by one: the definition itself.
"""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn

from factlearn.lifelong.gradients.forward import flat

CHUNK_BYTES = 256 * 2**20


class GeneralPath:
    """Gradients of `parameters` for each sample; remembers whether the model can be mapped."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._can_map = True

    def gradients(
        self, parameters: Mapping[str, Tensor], inputs: Tensor, seeds: list[Tensor]
    ) -> Iterator[tuple[str, Tensor]]:
        """Every parameter's name and `[samples, *shape]`, once for each seed and group of samples."""
        if self._can_map:
            try:
                mapped = list(
                    self._mapped(parameters, inputs[:1], seeds)
                )  # one sample shows whether it works
                yield from mapped
                yield from self._mapped(parameters, inputs[1:], [seed[1:] for seed in seeds])
                return
            except (RuntimeError, NotImplementedError):
                self._can_map = False
        yield from self._one_by_one(parameters, inputs, seeds)

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
            output = torch.func.vmap(one, randomness="different")(copies, rows)
            yield from _pulled(
                output, copies, [seed[begin : begin + step] for seed in seeds], lambda grad: grad
            )

    def _one_by_one(
        self, parameters: Mapping[str, Tensor], inputs: Tensor, seeds: list[Tensor]
    ) -> Iterator[tuple[str, Tensor]]:
        for index in range(len(inputs)):
            own = {
                name: parameter.detach().clone().requires_grad_() for name, parameter in parameters.items()
            }
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
