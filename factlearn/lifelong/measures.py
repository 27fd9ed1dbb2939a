"""What is measured: a measure turns a network's output into the gradients to send back through it.

Most measures provide *seeds*, gradients at the output, each sent back in one pass; every sample's parameter gradients
are then made non-negative (absolute value or square) and added up. The local measure needs no seeds: it looks at each
layer's own output.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, Self

import torch
from torch import Tensor

from factlearn.errors import ModelError
from factlearn.lifelong.gradients.accumulation import Reduction

Labels = Literal["true", "sampled", "empirical"]
Output = Literal["embedding", "scores"]


class Measure(Protocol):
    """A way to measure importance.

    Attributes:
        reduction: how a sample's gradient is made non-negative.
        local: whether it is about each layer's own output, not the network's.
        scores: whether the network's output must be class scores, one vector per sample.
        random: whether seeds are drawn at random.
    """

    @property
    def reduction(self) -> Reduction: ...
    @property
    def local(self) -> bool: ...
    @property
    def scores(self) -> bool: ...
    @property
    def random(self) -> bool: ...

    def seeds(self, output: Tensor, target: Tensor | None, generator: torch.Generator) -> Iterator[Tensor]:
        """Gradients at `output`, which has one row per sample with all its output values."""


@dataclass(frozen=True)
class SquaredNorm:
    """`mas`: Memory Aware Synapses, eq. 2, the gradient of the output's squared l2 norm."""

    reduction: ClassVar[Reduction] = "absolute"
    local: ClassVar[bool] = False
    scores: ClassVar[bool] = False
    random: ClassVar[bool] = False

    def seeds(self, output: Tensor, target: Tensor | None, generator: torch.Generator) -> Iterator[Tensor]:
        """One seed: the gradient of `||F(x)||^2` at the output is `2 F(x)`."""
        yield 2 * output


@dataclass(frozen=True)
class EveryOutput:
    """`mas-vector`: eq. 2 with a vector output, the sum of the absolute gradients of all outputs."""

    reduction: ClassVar[Reduction] = "absolute"
    local: ClassVar[bool] = False
    scores: ClassVar[bool] = False
    random: ClassVar[bool] = False

    def seeds(self, output: Tensor, target: Tensor | None, generator: torch.Generator) -> Iterator[Tensor]:
        """One seed per output."""
        yield from _unit_seeds(output)


@dataclass(frozen=True)
class Local:
    """`local`: l-MAS, eq. 5 and 7 without the factor 2: for ReLU layers the product of input and activation.

    It is half the gradient of each layer's own squared norm after the activation. Each sample's absolute value is
    taken: inputs and last layers can be negative, the weight of a penalty cannot.
    """

    reduction: ClassVar[Reduction] = "absolute"
    local: ClassVar[bool] = True
    scores: ClassVar[bool] = False
    random: ClassVar[bool] = False

    def seeds(self, output: Tensor, target: Tensor | None, generator: torch.Generator) -> Iterator[Tensor]:
        """None: nothing is sent back through the network."""
        yield from ()


@dataclass(frozen=True)
class Fisher:
    """`fisher`: the diagonal of the Fisher information, each sample's squared log-likelihood gradient.

    A classifier's likelihood is the softmax of its scores. An embedding has no class probabilities: its squared
    distance to the target is, up to a factor, the negative log-likelihood of a Gaussian of variance 1 around the
    output, so its Fisher is made of gradients of the embedding loss.

    Attributes:
        labels: where they come from. "true": the expectation over the network's own distribution, one pass per class;
            "sampled": drawn from it, one pass per draw; "empirical": the targets given with the inputs.
        likelihood: "categorical" for class scores, "gaussian" for embeddings; a Gaussian target that is NaN is ignored.
        draws: number of labels per sample, when sampled.
    """

    labels: Labels = "true"
    likelihood: Literal["categorical", "gaussian"] = "categorical"
    draws: int = 1
    reduction: ClassVar[Reduction] = "square"
    local: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.labels not in ("true", "sampled", "empirical"):
            raise ModelError(f"Fisher labels must be true, sampled or empirical, not {self.labels!r}.")
        if self.likelihood not in ("categorical", "gaussian"):
            raise ModelError(f"The likelihood must be categorical or gaussian, not {self.likelihood!r}.")
        if self.draws < 1:
            raise ModelError(f"The sampled Fisher needs at least one draw per sample, not {self.draws}.")

    @classmethod
    def of(cls, labels: Labels, output: Output) -> Self:
        """The Fisher of a network with this kind of output."""
        return cls(labels, "categorical" if output == "scores" else "gaussian")

    @property
    def random(self) -> bool:
        """Only sampled labels are drawn."""
        return self.labels == "sampled"

    @property
    def scores(self) -> bool:
        """Only a categorical likelihood needs class scores."""
        return self.likelihood == "categorical"

    def seeds(self, output: Tensor, target: Tensor | None, generator: torch.Generator) -> Iterator[Tensor]:
        """Gradients of the log-likelihood, scaled so that their squares add up to the expectation."""
        if self.labels == "empirical":
            yield self._given(output, target)
        elif self.labels == "true":
            yield from self._expected(output)
        else:
            for _ in range(self.draws):
                yield self._drawn(output, generator) / self.draws**0.5

    def _expected(self, output: Tensor) -> Iterator[Tensor]:
        if self.likelihood == "gaussian":
            yield from _unit_seeds(output)
            return
        chances = output.softmax(1)
        for label, seed in enumerate(_unit_seeds(output)):
            yield (seed - chances) * chances[:, label : label + 1].sqrt()

    def _drawn(self, output: Tensor, generator: torch.Generator) -> Tensor:
        if self.likelihood == "gaussian":
            return torch.randn(output.shape, generator=generator).to(output)
        chances = output.softmax(1)
        labels = torch.multinomial(chances.cpu(), 1, generator=generator).to(output.device)
        return torch.zeros_like(output).scatter_(1, labels, 1) - chances

    def _given(self, output: Tensor, target: Tensor | None) -> Tensor:
        if target is None:
            raise ModelError("The empirical Fisher needs targets: give batches as (inputs, targets).")
        target = target.to(output.device)
        if self.likelihood == "gaussian":
            if target.numel() != output.numel():
                raise ModelError(f"Expected {output.numel()} target values, one per output, not {target.numel()}.")
            return torch.nan_to_num(target.reshape(output.shape).to(output.dtype) - output, nan=0.0)
        if target.shape != output.shape[:1] or target.is_floating_point():
            raise ModelError(f"Class targets must be {len(output)} whole numbers, not shape {list(target.shape)}.")
        if len(target) and not 0 <= int(target.min()) <= int(target.max()) < output.shape[1]:
            raise ModelError(f"Class targets must lie between 0 and {output.shape[1] - 1}, the model's last class.")
        return torch.zeros_like(output).scatter_(1, target.long().unsqueeze(1), 1) - output.softmax(1)


def _unit_seeds(output: Tensor) -> Iterator[Tensor]:
    for index in range(output.shape[1]):
        seed = torch.zeros_like(output)
        seed[:, index] = 1
        yield seed


MEASURES: dict[str, Measure] = {
    "mas": SquaredNorm(),
    "mas-vector": EveryOutput(),
    "local": Local(),
    "fisher": Fisher("true"),
    "fisher-sampled": Fisher("sampled"),
    "fisher-empirical": Fisher("empirical"),
}


def measure_named(measure: str | Measure) -> Measure:
    """The measure with this name; a measure itself is returned unchanged."""
    if not isinstance(measure, str):
        return measure
    if measure not in MEASURES:
        raise ModelError(f"Unknown importance measure {measure!r}; choose one of {', '.join(MEASURES)}.")
    return MEASURES[measure]
