"""Ridge regression on features that never change: after every task, the closed-form solution for all tasks so far.

    A_u += sum_k h_k h_k^T,   B_u += sum_k h_k t_ku^T            over the task's images with output u
    W_u  = (A_u + shrinkage * mean ||h||^2 * I)^-1 B_u

h are the features, the input of the network's last linear layers, with a 1 appended for the bias, which is not shrunk.
A and B are sums, so the order of tasks does not matter and nothing is forgotten: after each task the outputs are those
of ridge regression on all images together. No image is kept, but the size of A is the square of the number of features.
Nothing else learns: below the outputs the network stays as it was, pretrained or random.

The targets t are word vectors (NaN for a unit the fact lacks), or, where outputs are scores, indicators of the class.
Then all heads share one A, and a new head starts from B = 0, which is exact: no earlier image shows its classes. The
shrinkage is found by generalised cross-validation from the sums alone, the temperature of a posterior by the likelihood
of each image under the solution without it (leave-one-out, in closed form), summed over tasks; no test image is seen.

Known from Analytic Class-Incremental Learning (Zhuang et al. 2022) and RanPAC (McDonnell et al. 2023); this is not the
exact recipe of either.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from factlearn.errors import ModelError
from factlearn.lifelong.config import MethodConfig
from factlearn.lifelong.features import output_layers, tapped
from factlearn.lifelong.gradients.forward import flat, ready, split, untouched
from factlearn.lifelong.registry import method
from factlearn.lifelong.strategy import Learner, Strategy, group_of, labelled

SHRINKAGES = tuple(10 ** (exponent / 4) for exponent in range(-12, 13))
TEMPERATURES = tuple(10 ** (exponent / 10) for exponent in range(-25, 1))
_SHARED = "scores"
_OUTPUTS = "ridge needs a network whose outputs are exactly those of its last linear layers, with a bias, in order."


class RidgeConfig(MethodConfig):
    """Settings of ridge."""

    name: Literal["ridge"] = "ridge"
    shrinkage: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["auto"] = 0.2
    """How strongly weights are pulled towards zero, in units of the features' mean squared length; `auto` finds it."""


@method(
    title="Ridge (closed form)",
    summary="solves for the output layers in closed form on features that never change",
    config=RidgeConfig,
)
class Ridge(Strategy):
    """Solves for the output layers and leaves all others alone.

    Attributes:
        shrinkage: how strongly weights are pulled towards zero, in units of the features' mean squared length.
        gram: A by the output layer's name; of scores, one for all layers.
        cross: B of each output layer.
        likelihood: minus the log-likelihood of all images so far at each of `TEMPERATURES`.
    """

    def __init__(self, shrinkage: float | Literal["auto"]) -> None:
        self.shrinkage = shrinkage
        self.gram: dict[str, Tensor] = {}
        self.cross: dict[str, Tensor] = {}
        self.likelihood: dict[str, Tensor] = {}

    @classmethod
    def of(cls, config: Any) -> Self:
        """Ridge with the settings of a `RidgeConfig`."""
        return cls(config.shrinkage)

    def epochs(self, asked: int) -> int:
        """No gradient steps."""
        return 0

    def before_task(self, learner: Learner) -> None:
        """Refuse to look for the shrinkage where the sums do not tell it."""
        if self.shrinkage == "auto" and learner.output != "scores":
            raise ModelError("shrinkage: auto is for scores; give a number, or set model.readout to posterior.")

    def after_task(self, learner: Learner) -> None:
        """Add the task's images to the sums and solve for the outputs."""
        module = learner.module
        layers: dict[str, nn.Linear] = {}
        for name in output_layers(module, next(iter(learner.inputs))):
            layers[name] = module.get_submodule(name)  # type: ignore[assignment]
        scores = learner.output == "scores"
        start = _first_score(list(layers.values()), learner) if scores else None
        for features, targets in _pairs(module, layers.values(), learner.inputs, start):
            self._add(layers, features, targets, shared=scores)
        if scores:
            solution = self._solved(_SHARED, torch.cat([self.cross[name] for name in layers], dim=1))
            for layer, weights in zip(
                layers.values(), solution.split([e.out_features for e in layers.values()], 1), strict=True
            ):
                _write(layer, weights)
            self._find_temperature(learner, layers, start or 0)
        else:
            for name, layer in layers.items():
                if self.gram[name][-1, -1]:
                    _write(layer, self._solved(name, self.cross[name]))

    def _add(self, layers: dict[str, nn.Linear], features: Tensor, targets: Tensor, *, shared: bool) -> None:
        features = _with_one(features)
        size = features.shape[1]
        widths = [layer.out_features for layer in layers.values()]
        if shared:
            self._sum(_SHARED, features)
        for name, wanted in zip(layers, targets.split(widths, dim=1), strict=True):
            known = wanted.isfinite().all(1)
            if not shared:
                self._sum(name, features[known])
            cross = self.cross.get(name, features.new_zeros(size, wanted.shape[1]))
            self.cross[name] = cross.to(features.device).addmm_(features[known].T, wanted[known])

    def _sum(self, name: str, features: Tensor) -> None:
        gram = self.gram.get(name, features.new_zeros(features.shape[1], features.shape[1]))
        self.gram[name] = gram.to(features.device).addmm_(features.T, features)

    def _solved(self, name: str, cross: Tensor) -> Tensor:
        """The weights for some targets, the bias in the last row."""
        gram, cross = self.gram[name].to(torch.float64, copy=True), cross.to(torch.float64)
        shrinkage = self.shrinkage if self.shrinkage != "auto" else _cross_validated(gram, cross)
        return torch.cholesky_solve(cross, _factor(gram, float(shrinkage))).to(self.gram[name].dtype)

    def _find_temperature(self, learner: Learner, layers: dict[str, nn.Linear], start: int) -> None:
        """Set the temperature of a network that has one, from what every image says under the solution without it."""
        module = learner.module
        if not isinstance(getattr(module, "temperature", None), Tensor):
            return
        gram = self.gram[_SHARED].to(torch.float64, copy=True)
        cross = torch.cat([self.cross[name] for name in layers], dim=1).to(torch.float64)
        shrinkage = self.shrinkage if self.shrinkage != "auto" else _cross_validated(gram, cross)
        factor = _factor(gram, float(shrinkage))
        grid = torch.tensor(TEMPERATURES, dtype=torch.float64, device=gram.device)
        total = self.likelihood.get("negative", torch.zeros_like(grid)).to(gram.device)
        for features, targets in _pairs(module, layers.values(), learner.inputs, start):
            rows, wanted = _with_one(features).to(torch.float64), targets.to(torch.float64)
            solved = torch.cholesky_solve(rows.T, factor)
            leverage = (rows * solved.T).sum(1, keepdim=True).clamp_max(1 - 1e-6)
            left_out = wanted - (wanted - solved.T @ cross) / (1 - leverage)
            chances = (left_out[None] / grid[:, None, None]).log_softmax(2)
            total -= (chances * wanted).sum((1, 2))
        self.likelihood["negative"] = total
        with torch.no_grad():
            module.temperature.fill_(float(grid[total.argmin()]))  # type: ignore[union-attr,operator]

    def state(self) -> dict[str, Tensor]:
        """The sums."""
        return labelled(gram=self.gram, cross=self.cross, likelihood=self.likelihood)

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore the sums."""
        self.gram, self.cross = group_of(state, "gram"), group_of(state, "cross")
        self.likelihood = group_of(state, "likelihood")


def _first_score(layers: Sequence[nn.Linear], learner: Learner) -> int:
    """The place of the task's first score among all; tasks that share one head share its scores too."""
    return sum(layer.out_features for layer in layers[: learner.task]) if len(layers) > 1 or learner.head else 0


def _with_one(features: Tensor) -> Tensor:
    return torch.cat([features, torch.ones_like(features[:, :1])], dim=1)


def _write(layer: nn.Linear, weights: Tensor) -> None:
    with torch.no_grad():
        layer.weight.copy_(weights[:-1].T)
        layer.bias.copy_(weights[-1])


def _factor(gram: Tensor, shrinkage: float) -> Tensor:
    """The Cholesky factor of the shrunk A, which is changed."""
    diagonal = gram.diagonal()
    diagonal[:-1] += shrinkage * diagonal[:-1].sum() / gram[-1, -1]
    try:
        factor: Tensor = torch.linalg.cholesky(gram)
        return factor
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        raise ModelError(
            "ridge has no stable solution: the features hardly differ; increase strategy.shrinkage."
        ) from None


def _cross_validated(gram: Tensor, cross: Tensor) -> float:
    """The shrinkage of least generalised cross-validation error on indicators, from the sums alone.

    GCV = n RSS / (n - 1 - sum_i e_i / (e_i + s))^2, with the eigenvalues e of the centred A; the sum of squared
    indicators is their sum, which the last row of B holds.
    """
    count = gram[-1, -1]
    mean = gram[-1, :-1] / count
    centred = gram[:-1, :-1] - count * torch.outer(mean, mean)
    sums = cross[-1]
    moved = cross[:-1] - torch.outer(mean, sums)
    eigenvalues, vectors = torch.linalg.eigh(centred)
    eigenvalues = eigenvalues.clamp_min(0)
    projected = (vectors.T @ moved).square().sum(1)
    squares = (sums - sums.square() / count).sum()
    unit = gram.diagonal()[:-1].sum() / count
    errors = []
    for shrinkage in SHRINKAGES:
        damped = eigenvalues + shrinkage * unit
        residual = squares - (projected * (eigenvalues + 2 * shrinkage * unit) / damped.square()).sum()
        freedom = count - 1 - (eigenvalues / damped).sum()
        errors.append(float(residual / freedom.clamp_min(1e-3).square()))
    return SHRINKAGES[min(range(len(errors)), key=errors.__getitem__)]


def _pairs(
    module: nn.Module, layers: Collection[nn.Linear], batches: Iterable[Any], start: int | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """The features and targets of all the task's images, batch by batch.

    Classes become indicators over all scores; `start` is the place of the task's first one.
    """
    with untouched(module), torch.no_grad(), tapped(next(iter(layers))) as tap:
        for batch in batches:
            inputs, targets = split(batch)
            if targets is None:
                raise ModelError("ridge needs targets: give batches as (inputs, targets).")
            outputs = flat(module(ready(inputs, module)), len(inputs))
            features = tap.take()
            own = torch.cat([layer(features) for layer in layers], dim=1)
            if start is None:
                targets = targets.to(features).flatten(1)
            else:
                targets = F.one_hot(targets.to(features.device) + start, own.shape[1]).to(features.dtype)
            if any(layer.bias is None for layer in layers) or outputs.shape != own.shape or targets.shape != own.shape:
                raise ModelError(_OUTPUTS)
            if not torch.allclose(outputs, own, rtol=1e-3, atol=1e-5):
                raise ModelError(_OUTPUTS)
            yield features, targets
