"""Ridge regression on features that never change: after every task, the closed-form solution for all tasks so far.

    A_u += sum_k h_k h_k^T,   B_u += sum_k h_k t_ku^T            over the task's images with output u
    W_u  = (A_u + shrinkage * mean ||h||^2 * I)^-1 B_u

h are the features, the input of the network's last linear layers, with a 1 appended for the bias, which is not shrunk.
A and B are sums, so the order of tasks does not matter and nothing is forgotten: after each task the outputs are those
of ridge regression on all images together. No image is kept, but the size of A is the square of the number of features.
Nothing else learns: below the outputs the network stays as it was, pretrained or random. Known from Analytic
Class-Incremental Learning (Zhuang et al. 2022) and RanPAC (McDonnell et al. 2023); this is not the exact recipe of
either.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from factlearn.errors import ModelError
from factlearn.lifelong.config import MethodConfig
from factlearn.lifelong.features import output_layers, tapped
from factlearn.lifelong.gradients.forward import flat, ready, split, untouched
from factlearn.lifelong.registry import method
from factlearn.lifelong.strategy import Learner, Strategy, group_of, labelled

_OUTPUTS = "ridge needs a network whose outputs are exactly those of its last linear layers, with a bias, in order."


class RidgeConfig(MethodConfig):
    """Settings of ridge."""

    name: Literal["ridge"] = "ridge"
    shrinkage: float = Field(0.2, gt=0, allow_inf_nan=False)
    """How strongly weights are pulled towards zero, in units of the features' mean squared length."""


@method(
    title="Ridge (closed form)",
    summary="solves for the output layers in closed form on features that never change",
    config=RidgeConfig,
    problems=("facts",),
)
class Ridge(Strategy):
    """Solves for the output layers and leaves all others alone.

    Attributes:
        shrinkage: how strongly weights are pulled towards zero, in units of the features' mean squared length.
        gram: A of each output layer, by the layer's name.
        cross: B of each output layer.
    """

    def __init__(self, shrinkage: float) -> None:
        self.shrinkage = shrinkage
        self.gram: dict[str, Tensor] = {}
        self.cross: dict[str, Tensor] = {}

    @classmethod
    def of(cls, config: Any) -> Self:
        """Ridge with the settings of a `RidgeConfig`."""
        return cls(config.shrinkage)

    def epochs(self, asked: int) -> int:
        """No gradient steps."""
        return 0

    def before_task(self, learner: Learner) -> None:
        """Refuse what has no closed form."""
        if learner.output != "embedding":
            raise ModelError("ridge solves for vectors, not for class scores; choose another strategy for classes.")

    def after_task(self, learner: Learner) -> None:
        """Add the task's images to the sums and solve for the outputs."""
        module = learner.module
        layers: dict[str, nn.Linear] = {}
        for name in output_layers(module, next(iter(learner.inputs))):
            layers[name] = module.get_submodule(name)  # type: ignore[assignment]
        for features, targets in _pairs(module, layers.values(), learner.inputs):
            self._add(layers, features, targets)
        for name, layer in layers.items():
            self._solve(name, layer)

    def _add(self, layers: dict[str, nn.Linear], features: Tensor, targets: Tensor) -> None:
        features = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
        widths = [layer.out_features for layer in layers.values()]
        for name, wanted in zip(layers, targets.split(widths, dim=1), strict=True):
            known = wanted.isfinite().all(1)
            seen = features[known]
            if name not in self.gram:
                self.gram[name] = features.new_zeros(features.shape[1], features.shape[1])
                self.cross[name] = features.new_zeros(features.shape[1], wanted.shape[1])
            self.gram[name] = self.gram[name].to(seen.device).addmm_(seen.T, seen)
            self.cross[name] = self.cross[name].to(seen.device).addmm_(seen.T, wanted[known])

    def _solve(self, name: str, layer: nn.Linear) -> None:
        gram, cross = (sums[name].to(torch.float64, copy=True) for sums in (self.gram, self.cross))
        count = gram[-1, -1]
        if not count:
            return
        diagonal = gram.diagonal()
        diagonal[:-1] += self.shrinkage * diagonal[:-1].sum() / count
        try:
            factor = torch.linalg.cholesky(gram)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            raise ModelError(
                "ridge has no stable solution: the features hardly differ; increase strategy.shrinkage."
            ) from None
        weights = torch.cholesky_solve(cross, factor).to(self.gram[name].dtype)
        with torch.no_grad():
            layer.weight.copy_(weights[:-1].T)
            layer.bias.copy_(weights[-1])

    def state(self) -> dict[str, Tensor]:
        """The sums."""
        return labelled(gram=self.gram, cross=self.cross)

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore the sums."""
        self.gram, self.cross = group_of(state, "gram"), group_of(state, "cross")


def _pairs(module: nn.Module, layers: Collection[nn.Linear], batches: Iterable[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """The features and targets of all the task's images, batch by batch."""
    with untouched(module), torch.no_grad(), tapped(next(iter(layers))) as tap:
        for batch in batches:
            inputs, targets = split(batch)
            if targets is None:
                raise ModelError("ridge needs targets: give batches as (inputs, targets).")
            outputs = flat(module(ready(inputs, module)), len(inputs))
            features = tap.take()
            own = torch.cat([layer(features) for layer in layers], dim=1)
            targets = targets.to(features).flatten(1)
            if any(layer.bias is None for layer in layers) or outputs.shape != own.shape or targets.shape != own.shape:
                raise ModelError(_OUTPUTS)
            if not torch.allclose(outputs, own, rtol=1e-3, atol=1e-5):
                raise ModelError(_OUTPUTS)
            yield features, targets
