"""Ridge regression on features that never change: after every task, the closed-form solution for all tasks so far.

h are the features, the input of the network's last linear layers. What is kept are sums over images (`sums.py`), from
which the output layers are solved (`solving.py`). So the order of tasks does not matter and nothing is forgotten: after
each task the outputs are those of ridge regression on all images together. No image is kept, but the size of the sums
is the square of the number of features. Nothing below the outputs learns, unless `first_session_epochs` has ordinary
gradient steps adapt the features to the first task before they are frozen.

The targets of a label are its word vectors (NaN for a unit that a fact lacks), or, where outputs are scores, its
indicator. The sums are the same for both, and so a run of facts holds both readouts. The temperature of the posterior
is the one under which images are likeliest by the solution without them; that is measured while a task's images are
there and kept as a sum per label.

Known from Analytic Class-Incremental Learning (Zhuang et al. 2022), RanPAC (McDonnell et al. 2023) and first-session
adaptation (Panos et al. 2023); this is not the exact recipe of any.
"""

from collections.abc import Collection, Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from factlearn import processes
from factlearn.errors import ModelError
from factlearn.lifelong.config import MethodConfig
from factlearn.lifelong.features import output_layers, tapped
from factlearn.lifelong.gradients.forward import flat, ready, split, untouched
from factlearn.lifelong.registry import method
from factlearn.lifelong.solving import TEMPERATURES, Solution, solve, unlikeliness
from factlearn.lifelong.strategy import Learner, Strategy, group_of, labelled
from factlearn.lifelong.sums import WIDE, Moments, Sums

_OUTPUTS = "ridge needs a network whose outputs are exactly those of its last linear layers, with a bias, in order."


class RidgeConfig(MethodConfig):
    """Settings of ridge."""

    name: Literal["ridge"] = "ridge"
    shrinkage: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["auto"] = 0.2
    """Ridge penalty, relative to the features' mean squared norm; `auto` chooses it by generalised cross-validation."""
    first_session_epochs: int = Field(0, ge=0)
    """Epochs of gradient steps on the first task, before the features are frozen."""
    weight: float = Field(10.0, gt=0, allow_inf_nan=False)
    """Sample weight of the photos of facts or classes that `factlearn adapt` protects."""


@method(
    title="Ridge (closed form)",
    summary="solves for the output layers in closed form on features that never change",
    config=RidgeConfig,
)
class Ridge(Strategy):
    """Solves for the output layers and leaves all others alone.

    Attributes:
        shrinkage: how strongly weights are pulled towards zero, in units of the features' mean squared length.
        first_session_epochs: epochs of gradient steps that the first task takes.
        weight: how often images of the labels count that the run was adapted to.
        sums: over all images so far, by label.
        protected: the same over the images of those labels alone.
        targets: what each label's outputs should be, where they are not scores; NaN for units that it lacks.
        unlikely: minus the log-likelihood of each label's images [labels, temperatures], where a temperature is found.
    """

    weighs_labels: ClassVar[bool] = True

    def __init__(self, shrinkage: float | Literal["auto"], first_session_epochs: int = 0, weight: float = 10.0) -> None:
        self.shrinkage = shrinkage
        self.first_session_epochs = first_session_epochs
        self.weight = weight
        self.sums, self.protected = Sums(), Sums()
        self.targets = torch.zeros(0)
        self.unlikely = torch.zeros(0, len(TEMPERATURES), dtype=WIDE)

    @classmethod
    def of(cls, config: Any) -> Self:
        """Ridge with the settings of a `RidgeConfig`."""
        return cls(config.shrinkage, config.first_session_epochs, config.weight)

    def epochs(self, asked: int) -> int:
        """Gradient steps on the first task alone, if at all."""
        return 0 if len(self.sums) else self.first_session_epochs

    def after_task(self, learner: Learner) -> None:
        """Add the task's images to the sums and solve for the outputs."""
        self.add(learner)
        if learner.targets is not None or _temperature(learner.module) is not None:
            self.measure_likelihood(learner)
        self.solve(learner)

    def add(self, learner: Learner, *, sign: int = 1) -> None:
        """Add the learner's images to the sums; `sign=-1` takes them out again."""
        if sign < 0 and len(self.unlikely):
            self.measure_likelihood(learner, sign)
        self.sums.add(self._labelled_features(learner), sign=sign)
        if sign < 0 and len(self.protected):
            weighed = self.protected.totals[:, -1] > 0
            pairs = ((features, labels.cpu()) for features, labels in self._labelled_features(learner))
            self.protected.add(((f[weighed[n]], n[weighed[n]]) for f, n in pairs if weighed[n].any()), sign=sign)

    def protect(self, learner: Learner) -> None:
        """Count the learner's images, which the sums have already, `weight` times from now on."""
        self._extend_protected()
        self.protected.add(self._labelled_features(learner))

    def _extend_protected(self) -> None:
        self.protected.extend(self.sums.groups, self.sums.totals.shape[1] - 1)

    def measure_likelihood(self, learner: Learner, sign: int = 1) -> None:
        """Measure how likely the learner's images are, each by the scores that are found without it."""
        solution = self._scores(len(self.sums))
        new = self.unlikely.new_zeros(len(self.sums) - len(self.unlikely), len(TEMPERATURES))
        self.unlikely = torch.cat([self.unlikely, new])
        if not processes.first():  # what was there before counts once
            self.unlikely = torch.zeros_like(self.unlikely)
        for features, labels in self._labelled_features(learner):
            scores = solution.left_out(features.cpu(), torch.eye(len(self.sums))[labels])
            self.unlikely.index_add_(0, labels.cpu(), unlikeliness(scores, labels.cpu()), alpha=sign)
        self.unlikely = processes.total(self.unlikely)

    def solve(self, learner: Learner) -> None:
        """Write the solution for all images so far into the output layers."""
        layers = layers_of(learner)
        if learner.output == "scores":
            self._solve_scores(learner.module, layers)
        else:
            if learner.targets is not None:
                self.targets = learner.targets.flatten(1).cpu()
            self._solve_vectors(layers)

    def _solve_scores(self, module: nn.Module, layers: list[nn.Linear]) -> None:
        widths = [layer.out_features for layer in layers]
        for layer, weights in zip(layers, self._scores(sum(widths)).weights.split(widths, dim=1), strict=True):
            _write(layer, weights)
        temperature = _temperature(module)
        if temperature is not None and len(self.unlikely):
            temperature.fill_(TEMPERATURES[int(self.unlikely.sum(0).argmin())])

    def _scores(self, count: int) -> Solution:
        """The ridge onto indicators of so many labels; the sums of those that were not seen yet are zero."""
        moments = self._moments()
        unseen = moments.rows.new_zeros(count - len(moments.rows), len(moments.gram))
        return solve(Moments(moments.gram, torch.cat([moments.rows, unseen])), torch.eye(count), self.shrinkage)

    def _solve_vectors(self, layers: list[nn.Linear]) -> None:
        for layer, targets in zip(layers, self.targets.split([e.out_features for e in layers], dim=1), strict=True):
            has_unit = targets.isfinite().all(1)
            moments = self._moments(has_unit)
            if moments.gram[-1, -1] > 0:
                _write(layer, solve(moments, targets.nan_to_num(), self.shrinkage).weights)

    def _moments(self, labels: Tensor | None = None) -> Moments:
        if not len(self.protected):
            return self.sums.moments(labels)
        self._extend_protected()
        return self.sums.moments(labels).plus(self.protected.moments(labels), self.weight - 1)

    def _labelled_features(self, learner: Learner) -> Iterator[tuple[Tensor, Tensor]]:
        """The features of the learner's images and the numbers of their labels, with room made for those.

        Of several processes that learn together, each gets those of its own share of the images.
        """
        for features, targets, numbers in _triples(learner, layers_of(learner)):
            labels = numbers
            if learner.targets is not None:
                wanted = learner.targets.flatten(1).cpu()
            elif learner.output == "scores":
                wanted = torch.zeros(int(labels.max()) + 1, 1)
            else:
                wanted, labels = self._distinct(targets.flatten(1).cpu())
            if len(wanted) >= len(self.sums):
                self.sums.extend(_groups(wanted, learner), features.shape[1])
                self.targets = wanted if learner.output != "scores" else torch.zeros(0)
            yield features, labels

    def _distinct(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """All distinct targets so far, and the number of each new image's: a label for each, where none is known."""
        seen = len(self.targets)
        together = torch.cat([self.targets, targets]) if seen else targets
        found, number = together.nan_to_num(torch.inf).unique(dim=0, return_inverse=True)
        first = torch.full((len(found),), len(together)).scatter_reduce_(0, number, torch.arange(len(number)), "amin")
        order = first.argsort()  # known targets keep their numbers
        rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))
        return together[first[order]], rank[number[seen:]]

    def drop(self, labels: Collection[int]) -> None:
        """Drop labels, whose images were taken out before, and number the others anew."""
        kept = [label for label in range(len(self.sums)) if label not in labels]
        self.sums, self.protected = self.sums.without(labels), self.protected.without(labels)
        self.targets = self.targets[kept] if len(self.targets) else self.targets
        self.unlikely = self.unlikely[kept] if len(self.unlikely) else self.unlikely

    def join(self, other: "Ridge", places: Tensor) -> None:
        """Add the sums of another run; `places` has the number that each of its labels gets here."""
        if len(self.protected) or len(other.protected):
            self._extend_protected()
            other._extend_protected()
            self.protected = self.protected.joined(other.protected, places)
        self.sums = self.sums.joined(other.sums, places)
        if len(other.unlikely):
            missing = self.unlikely.new_zeros(len(self.sums) - len(self.unlikely), len(TEMPERATURES))
            self.unlikely = torch.cat([self.unlikely, missing]).index_add_(0, places, other.unlikely)

    def state(self) -> dict[str, Tensor]:
        """The sums."""
        own = {"targets": self.targets.nan_to_num(torch.inf), "unlikely": self.unlikely}  # NaN equals not even itself
        kept = {"sums": self.sums.state(), "protected": self.protected.state()}
        return labelled(**kept, own={name: each for name, each in own.items() if len(each)})

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore the sums.

        Raises:
            ModelError: if they were kept by an earlier version.
        """
        if any(name.startswith("gram.") for name in state):
            raise ModelError("The sums were kept by an earlier version of factlearn, without labels; train again.")
        self.sums = Sums.of_state(group_of(state, "sums"))
        self.protected = Sums.of_state(group_of(state, "protected"))
        own = group_of(state, "own")
        targets = own.get("targets", torch.zeros(0))
        self.targets = targets.masked_fill(targets.isinf(), torch.nan)
        self.unlikely = own.get("unlikely", torch.zeros(0, len(TEMPERATURES), dtype=WIDE))


def layers_of(learner: Learner) -> list[nn.Linear]:
    """The linear layers that make the network's outputs."""
    names = output_layers(learner.module, next(iter(learner.inputs)))
    return [learner.module.get_submodule(name) for name in names]  # type: ignore[misc]


def _temperature(module: nn.Module) -> Tensor | None:
    found = getattr(module, "temperature", None)
    return found if isinstance(found, Tensor) else None


def _groups(targets: Tensor, learner: Learner) -> Tensor:
    """The group of each label: which units it has, as bits; one group where labels have no units."""
    if learner.targets is not None:
        has_unit = learner.targets.isfinite().all(2).cpu()
    elif learner.output == "scores":
        has_unit = torch.ones(len(targets), 1, dtype=torch.bool)
    else:
        widths = [layer.out_features for layer in layers_of(learner)]
        has_unit = torch.stack([part.isfinite().all(1) for part in targets.split(widths, dim=1)], dim=1)
    return (has_unit * 2 ** torch.arange(has_unit.shape[1])).sum(1)


def _write(layer: nn.Linear, weights: Tensor) -> None:
    with torch.no_grad():
        layer.weight.copy_(weights[:-1].T)
        layer.bias.copy_(weights[-1])


def _triples(learner: Learner, layers: Collection[nn.Linear]) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Features, targets and label numbers of this process's share of the learner's images, batch by batch."""
    module = learner.module
    with untouched(module), torch.no_grad(), tapped(next(iter(layers))) as tap:
        for batch in learner.own_inputs():
            inputs, targets = split(batch)
            if targets is None:
                raise ModelError("ridge needs targets: give batches as (inputs, targets, label numbers).")
            outputs = flat(module(ready(inputs, module)), len(inputs))
            features = tap.take()
            own = torch.cat([layer(features) for layer in layers], dim=1)
            if any(layer.bias is None for layer in layers) or outputs.shape != own.shape:
                raise ModelError(_OUTPUTS)
            if not torch.allclose(outputs, own, rtol=1e-3, atol=1e-5):
                raise ModelError(_OUTPUTS)
            yield features, targets, batch[2] if len(batch) > 2 else targets
