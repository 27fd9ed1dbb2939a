"""How much every parameter matters to what a network computes: exact, from unlabelled data, in one backward pass.

    omega = estimate(model, batches, measure="mas").mean()

Equation 2 of Memory Aware Synapses takes the absolute value of *each sample's* gradient. That needs no loop over
samples: in eval mode samples do not mix, so one backward pass gives every layer the gradient at its output for every
sample, and each layer's per-sample parameter gradients follow from it (`per_sample.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as safetensors_bytes
from torch import Tensor, nn

from factlearn.errors import ModelError
from factlearn.files import atomic_write
from factlearn.lifelong.measures import MEASURES, Measure, Reduction
from factlearn.lifelong.per_sample import Layer
from factlearn.lifelong.tracing import SamplesMixed, Trace

CHUNK_BYTES = 64 * 2**20


@dataclass
class Importance:
    """Importance of every measured parameter, kept as a sum over samples and their number.

    Sums and counts add, so importance can be updated online, merged between processes, and added to later.

    Attributes:
        sums: parameter name -> sum over samples, shaped like the parameter.
        count: number of samples (their total weight, where samples are weighted).
    """

    sums: dict[str, Tensor] = field(default_factory=dict)
    count: float = 0.0

    def mean(self) -> dict[str, Tensor]:
        """Omega: the sum over samples divided by their number (eq. 2)."""
        if self.count <= 0:
            raise ModelError("Importance of no samples has no mean; estimate it on at least one input.")
        return {name: total / self.count for name, total in self.sums.items()}

    def merge(self, other: Importance) -> Importance:
        """The importance over the samples of both, as if they had been measured together."""
        sums = {name: total.clone() for name, total in self.sums.items()}
        for name, total in other.sums.items():
            sums[name] = sums[name] + total.to(sums[name].device) if name in sums else total.clone()
        return Importance(sums, self.count + other.count)

    def scaled(self, factor: float) -> Importance:
        """The same samples with importance multiplied by `factor`."""
        return Importance({name: total * factor for name, total in self.sums.items()}, self.count)

    def save(self, path: Path | str) -> None:
        """Write sums and count as one safetensors file, atomically."""
        tensors = {name: total.detach().cpu().contiguous() for name, total in self.sums.items()}
        with atomic_write(path, "wb") as stream:
            stream.write(
                safetensors_bytes(tensors, {"format": "factlearn-importance", "count": repr(self.count)})
            )

    @classmethod
    def load(cls, path: Path | str, device: torch.device | str = "cpu") -> Importance:
        """Read what `save` wrote."""
        try:
            with safe_open(path, "pt", device=str(device)) as file:
                count = float((file.metadata() or {})["count"])
                return cls({name: file.get_tensor(name) for name in file.keys()}, count)  # noqa: SIM118
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise ModelError(
                f"{path} is not a readable importance file ({error}); estimate it again."
            ) from error


class Estimator:
    """Accumulates importance batch by batch: `update` may be called whenever new inputs come along."""

    def __init__(
        self,
        model: nn.Module,
        measure: str | Measure = "mas",
        *,
        parameters: Collection[str] | None = None,
        start: Importance | None = None,
    ):
        if isinstance(measure, str) and measure not in MEASURES:
            raise ModelError(f"Unknown importance measure {measure!r}; choose one of {', '.join(MEASURES)}.")
        self.model = model
        self.measure = MEASURES[measure] if isinstance(measure, str) else measure
        self.parameters = _chosen(model, parameters)
        self.importance = start.merge(Importance()) if start else Importance()
        for name, parameter in self.parameters.items():
            self.importance.sums.setdefault(name, torch.zeros_like(parameter, requires_grad=False))

    def update(self, batch: Any, target: Tensor | None = None) -> None:
        """Add the importance of every parameter for each input of `batch`."""
        inputs, given_target = _split(batch)
        target = given_target if target is None else target
        with _untouched(self.model):
            try:
                self._measure(inputs, target)
            except SamplesMixed:
                for row in range(len(inputs)):
                    self._measure(inputs[row : row + 1], None if target is None else target[row : row + 1])
        self.importance.count += len(inputs)

    def _measure(self, inputs: Tensor, target: Tensor | None) -> None:
        accumulator = _Accumulator(self.importance.sums, self.measure.reduction)
        trace = Trace(self.parameters, len(inputs), accumulator.receive)
        with trace:
            output = _flat(self.model(inputs), len(inputs))
        accumulator.expect(trace)
        for seed in self.measure.seeds(output.detach(), target):
            if output.requires_grad:
                torch.autograd.grad(output, trace.anchor, seed, retain_graph=True, allow_unused=True)
            accumulator.finish()
            self._general(inputs, seed, trace.general)

    def _general(self, inputs: Tensor, seed: Tensor, names: Collection[str]) -> None:
        """Parameters used in a way no formula covers: sample by sample, the definition itself."""
        if not names:
            return
        chosen = {name: self.parameters[name] for name in names}
        for parameter in chosen.values():
            parameter.requires_grad_(True)
        for row in range(len(inputs)):
            output = _flat(self.model(inputs[row : row + 1]), 1)
            gradients = torch.autograd.grad(
                output, list(chosen.values()), seed[row : row + 1], allow_unused=True
            )
            for name, gradient in zip(chosen, gradients, strict=True):
                if gradient is not None:
                    self.importance.sums[name] += _reduced(gradient, self.measure.reduction)
        for parameter in chosen.values():
            parameter.requires_grad_(False)


def estimate(
    model: nn.Module,
    batches: Iterable[Any],
    measure: str | Measure = "mas",
    *,
    parameters: Collection[str] | None = None,
    start: Importance | None = None,
    progress: Callable[[int], None] | None = None,
) -> Importance:
    """Importance of every parameter that requires a gradient (or of those named) over all inputs in `batches`.

    Args:
        model: any module; it is left as it was found.
        batches: input tensors with one sample a row, or tuples whose first element is one.
        measure: "mas" or "mas-vector".
        parameters: names of the parameters to measure; by default all that require a gradient.
        start: importance to add to.
        progress: called after each batch with the number of samples in it.
    """
    estimator = Estimator(model, measure, parameters=parameters, start=start)
    for batch in batches:
        estimator.update(batch)
        if progress is not None:
            progress(len(_split(batch)[0]))
    return estimator.importance


class _Accumulator:
    """Reduces and adds per-sample gradients as backward reaches the layers.

    A parameter used once is added at once; of a shared one the per-sample gradients of all its uses add up first.
    """

    def __init__(self, sums: Mapping[str, Tensor], reduction: Reduction):
        self.sums = sums
        self.reduction = reduction
        self._general: set[str] = set()
        self._uses: Mapping[str, int] = {}
        self._waiting: dict[str, list[Layer]] = {}

    def expect(self, trace: Trace) -> None:
        """Take note of what the forward pass used, before backward begins."""
        self._uses, self._general = trace.uses, trace.general

    def receive(self, layer: Layer, delta: Tensor) -> None:
        """Called by backward with the gradient at a layer's output."""
        layer.delta = delta
        keep = False
        for name in layer.measured:
            if name in self._general:
                continue
            if self._uses[name] == 1:
                self._add(name, [layer])
            else:
                self._waiting.setdefault(name, []).append(layer)
                keep = True
        if not keep:
            layer.delta = None

    def finish(self) -> None:
        """Add what shared parameters have gathered, after backward."""
        for name, layers in self._waiting.items():
            self._add(name, layers)
        self._waiting.clear()

    def _add(self, name: str, layers: list[Layer]) -> None:
        total, first = self.sums[name], layers[0]
        parameter = first.measured[name]
        assert first.delta is not None
        if len(layers) == 1 and first.is_plain_linear() and parameter is first.named["weight"]:
            reduced = _reduced(first.delta, self.reduction)
            total.addmm_(reduced.T, _reduced(first.input, self.reduction))
            return
        chunk = max(1, CHUNK_BYTES // (parameter.element_size() * parameter.numel()))
        for begin in range(0, len(first.delta), chunk):
            rows = slice(begin, begin + chunk)
            gradients = first.gradients(name, rows)
            for other in layers[1:]:
                gradients = gradients + other.gradients(name, rows)
            total += _reduced(gradients, self.reduction).sum(0)


def _reduced(gradients: Tensor, reduction: Reduction) -> Tensor:
    return gradients.abs() if reduction == "absolute" else gradients.square()


def _split(batch: Any) -> tuple[Tensor, Tensor | None]:
    if isinstance(batch, Tensor):
        return batch.detach(), None
    if isinstance(batch, list | tuple) and batch and isinstance(batch[0], Tensor):
        return batch[0].detach(), batch[1] if len(batch) > 1 else None
    raise ModelError(f"A batch must be a tensor or a tuple that starts with one, not {type(batch).__name__}.")


def _flat(output: Any, samples: int) -> Tensor:
    """All output values of each sample in a row, whatever structure the model gives them in."""
    leaves = list(_leaves(output))
    if not leaves or any(leaf.dim() < 1 or len(leaf) != samples for leaf in leaves):
        raise ModelError(
            "The model's output must be tensors with one row for each input; importance needs them."
        )
    return (
        torch.cat([leaf.reshape(samples, -1) for leaf in leaves], dim=1)
        if len(leaves) > 1
        else (leaves[0].reshape(samples, -1))
    )


def _leaves(output: Any) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, Mapping):
        for value in output.values():
            yield from _leaves(value)
    elif isinstance(output, list | tuple):
        for value in output:
            yield from _leaves(value)


def _chosen(model: nn.Module, names: Collection[str] | None) -> dict[str, Tensor]:
    known = dict(model.named_parameters())
    if names is None:
        return {name: parameter for name, parameter in known.items() if parameter.requires_grad}
    unknown = sorted(set(names) - known.keys())
    if unknown:
        raise ModelError(f"The model has no parameter {unknown[0]!r}; it has {', '.join(known)}.")
    return {name: known[name] for name in known if name in set(names)}


@contextmanager
def _untouched(model: nn.Module) -> Iterator[None]:
    """Eval mode and no parameter gradients inside; everything as it was afterwards."""
    training = [(module, module.training) for module in model.modules()]
    needs = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        for module, _ in training:
            module.training = False
        for parameter, _ in needs:
            parameter.requires_grad_(False)
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        for module, flag in training:
            module.training = flag
        for parameter, need in needs:
            parameter.requires_grad_(need)
