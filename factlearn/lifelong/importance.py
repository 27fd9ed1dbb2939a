"""How much every parameter matters to what a network computes: exact, from unlabelled data.

    omega = estimate(model, batches, measure="mas").mean()

Equation 2 of Memory Aware Synapses takes the absolute value of *each sample's* gradient. That needs no loop over
samples: in eval mode samples do not interact, so one backward pass gives every layer the gradient at its output for
every sample, and each sample's parameter gradients follow from it (`gradients/`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as safetensors_bytes
from torch import Tensor, nn

from factlearn.errors import ModelError
from factlearn.files import atomic_write
from factlearn.lifelong.allocator import freed_memory_kept
from factlearn.lifelong.gradients import forward
from factlearn.lifelong.gradients.accumulation import Accumulator, reduced_
from factlearn.lifelong.gradients.general import GeneralPath
from factlearn.lifelong.gradients.layers import Layer
from factlearn.lifelong.gradients.local import LocalTrace
from factlearn.lifelong.gradients.tracing import SamplesMixed, SamplesUnclear, Trace
from factlearn.lifelong.measures import Measure, measure_named
from factlearn.processes import Elsewhere

_LARGE = 1 << 26  # bytes of parameters above which reallocating memory for every gradient costs more than keeping it


@dataclass
class Importance:
    """Importance of every measured parameter, kept as a sum over samples and their number.

    Sums and counts add up: importance can be updated online, merged between processes, and added to later.

    Attributes:
        sums: parameter name -> sum over samples, shaped like the parameter.
        count: number of samples; where samples are weighted, their total weight.
    """

    sums: dict[str, Tensor] = field(default_factory=dict)
    count: float = 0.0

    def mean(self) -> dict[str, Tensor]:
        """Omega: the sum over samples divided by their number (eq. 2)."""
        if self.count <= 0:
            raise ModelError("There is no mean importance without samples; estimate it on at least one input.")
        return {name: total / self.count for name, total in self.sums.items()}

    def merge(self, other: Importance) -> Importance:
        """The importance over the samples of both, as if they had been measured together."""
        sums = {name: total.clone() for name, total in self.sums.items()}
        for name, total in other.sums.items():
            if name not in sums:
                sums[name] = total.clone()
            elif sums[name].shape != total.shape:
                raise ModelError(f"Parameter {name!r} has another shape in the importance to merge; measure it again.")
            else:
                sums[name] += total.to(sums[name].device)
        return Importance(sums, self.count + other.count)

    def scaled(self, factor: float) -> Importance:
        """The same samples with every importance multiplied by `factor`."""
        if factor < 0:
            raise ModelError(f"Importance must not become negative; scale it by 0 or more, not by {factor}.")
        return Importance({name: total * factor for name, total in self.sums.items()}, self.count)

    def to(self, device: torch.device | str) -> Importance:
        """The same importance on another device."""
        return Importance({name: total.to(device) for name, total in self.sums.items()}, self.count)

    def save(self, path: Path | str) -> None:
        """Write sums and count as one safetensors file, atomically."""
        tensors = {name: total.detach().cpu().contiguous() for name, total in self.sums.items()}
        about = {"format": "factlearn-importance", "count": repr(float(self.count))}
        with atomic_write(path, "wb") as stream:
            stream.write(safetensors_bytes(tensors, about))

    @classmethod
    def load(cls, path: Path | str, device: torch.device | str = "cpu") -> Importance:
        """Read what `save` wrote."""
        try:
            with safe_open(path, "pt", device=str(device)) as file:
                count = float((file.metadata() or {})["count"])
                return cls({name: file.get_tensor(name) for name in file.keys()}, count)  # noqa: SIM118
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise ModelError(f"{path} is not a readable importance file; estimate importance again.") from error


class Estimator:
    """Accumulates importance batch by batch: call `update` whenever there are new inputs.

    Attributes:
        importance: what has been accumulated so far.
    """

    def __init__(
        self,
        model: nn.Module,
        measure: str | Measure = "mas",
        *,
        parameters: Collection[str] | None = None,
        start: Importance | None = None,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.measure = measure_named(measure)
        self.parameters = _chosen(model, parameters)
        self.importance = _beginning(self.parameters, start)
        self._general = GeneralPath(model)
        self._generator = torch.Generator().manual_seed(seed)
        self._passed: list[int] = []

    def pass_over(self, samples: int) -> None:
        """Leave out a batch that another process measures, and the random labels that it draws there."""
        if self.measure.random:
            self._passed.append(samples)

    def update(self, batch: Any, weights: Tensor | None = None) -> Importance:
        """Add the importance of each input in `batch`; sample k counts `weights[k]` times.

        A batch is a tensor with one sample per row, or a tuple that starts with one; its second element is the target,
        which only the empirical Fisher uses.
        """
        inputs, target = forward.split(batch)
        inputs = forward.ready(inputs, self.model)
        if weights is not None:
            weights = _checked(weights, len(inputs)).to(inputs.device)
        with forward.untouched(self.model):
            self._measure(inputs, target, weights)
        self.importance.count += len(inputs) if weights is None else float(weights.sum())
        return self.importance

    def _measure(self, inputs: Tensor, target: Tensor | None, weights: Tensor | None) -> None:
        """Measure a whole batch, or one sample at a time where the model mixes samples."""
        try:
            (self._by_layer if self.measure.local else self._by_output)(inputs, target, weights)
        except (SamplesMixed, SamplesUnclear) as reason:
            size = 1 if isinstance(reason, SamplesMixed) else len(inputs) - 1
            for rows in (slice(begin, begin + size) for begin in range(0, len(inputs), size)):
                part = tuple(None if each is None else each[rows] for each in (inputs, target, weights))
                self._measure(*part)  # type: ignore[arg-type]

    def _by_output(self, inputs: Tensor, target: Tensor | None, weights: Tensor | None) -> None:
        accumulator = Accumulator(self.importance.sums, self.measure.reduction)
        trace = Trace(self.parameters, len(inputs), accumulator.receive)
        with trace:
            raw = self.model(inputs)
        output = forward.flat(raw, len(inputs))
        if self.measure.scores and not forward.one_row_of_scores(raw):
            raise ModelError("A categorical Fisher needs class scores, one vector per sample; use 'gaussian'.")
        if not output.detach().isfinite().all():
            raise ModelError("The model's output is not finite, so importance is undefined; check inputs and weights.")
        accumulator.uses = trace.uses
        for name in trace.general:
            del accumulator.uses[name]
        del raw
        for samples in self._passed:
            list(self.measure.seeds(output.new_zeros(samples, output.shape[1]), None, self._generator))
        self._passed.clear()
        seeds = self._weighted(self.measure.seeds(output.detach(), target, self._generator), weights)
        if trace.general:
            kept = list(seeds)
            self._without_formula(trace.general, inputs, kept)
            seeds = iter(kept)
        for seed, last in _with_last(seeds):
            accumulator.last_pass = last
            if output.requires_grad:
                torch.autograd.grad(output, trace.anchor, seed, retain_graph=not last, allow_unused=True)
            accumulator.finish()

    def _by_layer(self, inputs: Tensor, target: Tensor | None, weights: Tensor | None) -> None:
        received: list[tuple[Layer, Tensor]] = []
        trace = LocalTrace(self.parameters, len(inputs), lambda layer, delta: received.append((layer, delta)))
        with trace:
            self.model(inputs)
        if trace.general and len(inputs) > 1:
            raise SamplesMixed
        if trace.general:
            name = min(trace.general)
            raise ModelError(f"The local measure cannot tell which layer {name!r} belongs to; do not measure it.")
        accumulator = Accumulator(self.importance.sums, self.measure.reduction)
        accumulator.uses, accumulator.last_pass = trace.uses, True
        received.reverse()
        while received:
            layer, delta = received.pop()
            scale = 1 if weights is None else weights.to(delta).view(-1, *[1] * (delta.dim() - 1))
            accumulator.receive(layer, delta * scale)
        accumulator.finish()

    def _without_formula(self, names: Collection[str], inputs: Tensor, seeds: list[Tensor]) -> None:
        chosen = {name: self.parameters[name] for name in names}
        for name, gradients in self._general.gradients(chosen, inputs, seeds):
            total = self.importance.sums[name]
            total += reduced_(gradients.to(total.dtype), self.measure.reduction).sum(0)

    def _weighted(self, seeds: Iterator[Tensor], weights: Tensor | None) -> Iterator[Tensor]:
        """Scale each sample's seed so that its importance is scaled by its weight."""
        if weights is None:
            yield from seeds
        else:
            scale = weights if self.measure.reduction == "absolute" else weights.sqrt()
            for seed in seeds:
                yield seed * scale.to(seed).unsqueeze(1)


def estimate(
    model: nn.Module,
    batches: Iterable[Any],
    measure: str | Measure = "mas",
    *,
    parameters: Collection[str] | None = None,
    start: Importance | None = None,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Importance:
    """Estimate the importance of every parameter over all inputs in `batches`.

    Args:
        model: any module; it is measured in eval mode and left as it was.
        batches: tensors with one sample per row, or tuples that start with one (then targets, which only the empirical
            Fisher uses). Of those that other processes take, `processes.shared` tells the size alone.
        measure: "mas", "mas-vector", "local", "fisher", "fisher-sampled", "fisher-empirical", or a measure from
            `factlearn.lifelong.measures` with its own settings.
        parameters: names of the parameters to measure; by default all that require a gradient.
        start: importance to add to; it is not modified.
        seed: for the labels that the sampled Fisher draws.
        progress: called after each batch with the number of samples in it.

    Raises:
        ModelError: if the model, a batch or a name does not fit.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> omega = estimate(model, [torch.randn(16, 4)], measure="mas").mean()
        >>> omega["0.weight"].shape
        torch.Size([8, 4])
    """
    estimator = Estimator(model, measure, parameters=parameters, start=start, seed=seed)
    large = sum(4 * parameter.numel() for parameter in estimator.parameters.values()) > _LARGE
    with freed_memory_kept() if large else nullcontext():
        for batch in batches:
            if isinstance(batch, Elsewhere):
                estimator.pass_over(batch.samples)
                continue
            estimator.update(batch)
            if progress is not None:
                progress(len(forward.split(batch)[0]))
    return estimator.importance


def _chosen(model: nn.Module, names: Collection[str] | None) -> dict[str, Tensor]:
    known = dict(model.named_parameters())
    if names is None:
        return {name: parameter for name, parameter in known.items() if parameter.requires_grad}
    unknown = sorted(set(names) - known.keys())
    if unknown:
        raise ModelError(f"The model has no parameter {unknown[0]!r}; its parameters are {', '.join(known)}.")
    return {name: known[name] for name in known if name in set(names)}


def _beginning(parameters: dict[str, Tensor], start: Importance | None) -> Importance:
    sums = {}
    with torch.inference_mode(False):
        for name, parameter in parameters.items():
            kind = torch.promote_types(parameter.dtype, torch.float32)
            sums[name] = torch.zeros(parameter.shape, dtype=kind, device=parameter.device)
        return Importance(sums) if start is None else Importance(sums).merge(start)


def _checked(weights: Tensor, samples: int) -> Tensor:
    if weights.shape != (samples,) or not bool((weights >= 0).all()):
        raise ModelError(f"Weights must be {samples} non-negative numbers, one per sample in the batch.")
    return weights.detach()


def _with_last(seeds: Iterator[Tensor]) -> Iterator[tuple[Tensor, bool]]:
    """Each seed, and whether it is the last, whose backward pass can free the graph."""
    before: Tensor | None = None
    for seed in seeds:
        if before is not None:
            yield before, False
        before = seed
    if before is not None:
        yield before, True
