"""Closed form on features that keep learning: the sums of old labels are moved along with the features.

    L  = L_n + lambda ||h(x) - h_old(x)||^2 / ||h_old||^2              gradient steps, on the new task's images
    P  = argmin sum_k ||[h_old(x_k), 1] P - h(x_k)||^2 + shrinkage     after the task, on the same images
    totals <- totals P,   scatter <- P^T scatter P + n R               R: the covariance of what P does not explain

Ridge (`ridge.py`) solves for the outputs from sums over images, which are exact as long as the features stay what they
were. Here they learn. Both networks, the one before the task and the one after, see the new task's images, and the
affine map P between their features says where the features of old images, which are gone, have moved to. The sums move
with it; then the new images are added, and the outputs are solved for all labels. The distillation keeps the drift
small enough for a linear map to describe. P is shrunk towards no drift, as much as generalised cross-validation says.

If the drift is exactly affine, and the new images show it in all directions, the sums are those that recomputing the
features of all old images would give. No image is kept. The idea of moving what is kept of old classes by the drift
seen on new images is that of Yu et al. (2020, class means, by the nearest drift) and Gomez-Villa et al. (2024, class
means, by a learned projector); moving whole second moments, for ridge, is ours.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from factlearn import processes
from factlearn.lifelong.config import Strength
from factlearn.lifelong.features import FeatureTap, output_layers, tapped
from factlearn.lifelong.gradients.forward import ready, split, untouched
from factlearn.lifelong.lwf import DistillationConfig, LwF
from factlearn.lifelong.registry import method
from factlearn.lifelong.ridge import Ridge
from factlearn.lifelong.solving import cross_validated, shrunk_factor
from factlearn.lifelong.strategy import Learner
from factlearn.lifelong.sums import WIDE, Sums, packed, unpacked, with_one


class DriftConfig(DistillationConfig):
    """Settings of drift compensation."""

    name: Literal["drift"] = "drift"
    lambda_: Strength = 1.0
    """Weight of the penalty on feature drift, measured on the new task's images."""
    shrinkage: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["auto"] = "auto"
    """Shrinkage of the outputs, as for ridge."""
    warmup_epochs: int = Field(0, ge=0)


@method(
    title="Drift (closed form)",
    summary="lets features learn, maps the stored sums along with them, and solves for the outputs in closed form",
    config=DriftConfig,
)
class Drift(LwF):
    """Learns features by gradient steps, and solves for the output layers from sums that follow the features.

    Attributes:
        ridge: the sums of all images so far, in terms of the features as they are now, and the solution from them.
    """

    def __init__(self, strength: float, shrinkage: float | Literal["auto"] = "auto", warmup_epochs: int = 0) -> None:
        super().__init__(strength, warmup_epochs=warmup_epochs)
        self.ridge = Ridge(shrinkage)
        self._taps: list[FeatureTap] = []

    @classmethod
    def of(cls, config: Any) -> Self:
        """With the settings of a `DriftConfig`."""
        return cls(config.lambda_, config.shrinkage, config.warmup_epochs)

    def before_task(self, learner: Learner) -> None:
        """Keep a copy of the old network, and tap the features of both."""
        super().before_task(learner)
        if self.teacher is not None:
            name = output_layers(self.teacher, next(iter(learner.inputs)))[0]
            self._taps = [FeatureTap(module.get_submodule(name)) for module in (learner.module, self.teacher)]

    def extra_loss(self, learner: Learner, inputs: Tensor, outputs: Any) -> Tensor | None:
        """How far the features have moved on this batch, in units of their length."""
        if self.teacher is None:
            return None
        with torch.no_grad():
            self.teacher(inputs)
        new, old = (tap.take() for tap in self._taps)
        length = old.square().sum()
        processes.add_up(length)  # the loop weighs what each process returns as a mean over its rows
        moved: Tensor = (new - old).square().sum() / length.clamp_min(1e-12) / processes.weight()
        return self.strength * moved

    def after_task(self, learner: Learner) -> None:
        """Move the sums by the drift of the task, add its images, and solve for all outputs."""
        for tap in self._taps:
            tap.remove()
        self._taps = []
        if self.teacher is not None:
            self.ridge.sums = moved_sums(self.ridge.sums, *fit_drift(_before_and_after(learner, self.teacher)))
        super().after_task(learner)
        self.ridge.after_task(learner)

    def state(self) -> dict[str, Tensor]:
        """The sums; in the middle of a task also the network before it."""
        return super().state() | self.ridge.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore the sums, and the network before the task."""
        super().load_state(state)
        self.ridge.load_state(state)


def fit_drift(pairs: Iterator[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The affine map from features before a task to those after it, and the covariance of what it leaves unexplained.

    Args:
        pairs: batches of features of the same images, before and after; of several processes each has its own.

    Returns:
        [features + 1, features] and [features, features], in float64.
    """
    gram = cross = square = torch.zeros((), dtype=WIDE)
    for before, after in pairs:
        old = before.cpu().to(WIDE)
        rows, moved = with_one(old), after.cpu().to(WIDE) - old
        gram, cross, square = gram + rows.T @ rows, cross + rows.T @ moved, square + moved.T @ moved
    gram, cross, square = (processes.total(each) for each in (gram, cross, square))
    count = float(gram[-1, -1])
    change = torch.zeros_like(cross)
    if gram[:-1, :-1].any():
        shrinkage = cross_validated(gram, cross, square.diagonal().sum())
        change = torch.cholesky_solve(cross, shrunk_factor(gram, shrinkage))
    else:  # no old feature answered to any image: all that can be seen is a common shift
        change[-1] = cross[-1] / count
    residual = (square - change.T @ cross - cross.T @ change + change.T @ gram @ change) / count
    change[:-1] += torch.eye(len(change) - 1, dtype=WIDE)
    return change, residual


def moved_sums(sums: Sums, drift: Tensor, residual: Tensor) -> Sums:
    """The sums of the same images in terms of features that have drifted."""
    counts = sums.totals[:, -1:]
    # Copied: products depend, in their last bits, on where in memory a tensor lies, and a resumed one lies elsewhere.
    totals = torch.cat([sums.totals.clone() @ drift, counts], dim=1)
    scatter = {}
    for group, triangle in sums.scatter.items():
        count = float(counts[sums.groups == group].sum())
        scatter[group] = packed(drift[:-1].T @ unpacked(triangle) @ drift[:-1] + count * residual)
    return Sums(totals, sums.groups, scatter)


def _before_and_after(learner: Learner, teacher: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
    """The features of this process's share of the task's images, batch by batch, by the old network and the new."""
    module = learner.module
    name = output_layers(teacher, next(iter(learner.inputs)))[0]
    layers = [each.get_submodule(name) for each in (teacher, module)]
    with untouched(module), torch.no_grad(), tapped(layers[0]) as old, tapped(layers[1]) as new:
        for batch in learner.own_inputs():
            inputs = ready(split(batch)[0], module)
            teacher(inputs)
            module(inputs)
            yield old.take(), new.take()
