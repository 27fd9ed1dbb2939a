"""Run a user's model and leave it as it was: one row of output values per sample."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from factlearn.errors import ModelError


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Inside: eval mode, and no parameter requires a gradient. Afterwards everything is restored, whatever happens.

    Flags are set directly: a `train` method may be overridden, and the definition requires eval mode.
    """
    training = [(module, module.training) for module in model.modules()]
    needs = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    fast_attention = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)  # it has no derivative
        for module, _ in training:
            module.training = False
        for parameter, _ in needs:
            parameter.requires_grad_(False)
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_attention)
        for module, flag in training:
            module.training = flag
        for parameter, need in needs:
            parameter.requires_grad_(need)


def split(batch: Any) -> tuple[Tensor, Tensor | None]:
    """A batch's inputs and, where it has them, its targets."""
    if isinstance(batch, Tensor):
        return batch, None
    if isinstance(batch, list | tuple) and batch and isinstance(batch[0], Tensor):
        target = batch[1] if len(batch) > 1 and isinstance(batch[1], Tensor) else None
        return batch[0], target
    raise ModelError(f"A batch must be a tensor or a tuple that starts with one, not {type(batch).__name__}.")


def ready(inputs: Tensor, model: nn.Module) -> Tensor:
    """The inputs on the model's device, detached from any graph.

    They keep their memory layout. Channels last would be a tenth faster on a CPU, but it rounds differently, which
    flips units within rounding error of their ReLU's threshold: gradients would differ from a loop's by 1e-3.
    """
    if inputs.dim() == 0 or len(inputs) == 0:
        raise ModelError("A batch must hold at least one sample, with one sample per row.")
    parameter = next(model.parameters(), None)
    inputs = inputs.detach() if parameter is None else inputs.detach().to(parameter.device)
    return inputs.clone() if inputs.is_inference() else inputs


def leaves(output: Any) -> list[Tensor]:
    """The tensors in a model's output: a tensor, or tuples, lists and dicts of them."""
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, Mapping):
        output = list(output.values())
    if isinstance(output, list | tuple):
        return [leaf for value in output for leaf in leaves(value)]
    return []


def flat(output: Any, samples: int) -> Tensor:
    """All output values, one row per sample: `[samples, values]`."""
    found = leaves(output)
    if not found or any(leaf.dim() < 1 or len(leaf) != samples for leaf in found):
        shapes = ", ".join(str(list(leaf.shape)) for leaf in found) or type(output).__name__
        raise ModelError(f"The model must return tensors with one row per sample, {samples} rows here, not {shapes}.")
    rows = [leaf.reshape(samples, -1) for leaf in found]
    return rows[0] if len(rows) == 1 else torch.cat(rows, dim=1)


def one_row_of_scores(output: Any) -> bool:
    """Whether the output is one vector per sample, as class scores are."""
    found = leaves(output)
    return len(found) == 1 and found[0].dim() == 2
