"""Elastic Weight Consolidation (Kirkpatrick et al., PNAS 2017), as the paper compares with it.

    L = L_n + lambda sum_i F_i (theta_i - theta_star_i)^2      (eq. 3 with the Fisher information; no 1/2)

The paper follows Huszar (2017): one penalty, a running sum of Fishers around the last solution. The original's separate
penalties, each Fisher around its own task's solution, are an option that costs no more: a sum of quadratics is one
quadratic, around the Fisher-weighted mean of the solutions.
"""

from typing import Any, Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor

from factlearn.lifelong.config import ImportanceConfig, PenaltyForm, Strength
from factlearn.lifelong.consolidation import Consolidation
from factlearn.lifelong.measures import Fisher, Labels, Output
from factlearn.lifelong.registry import method
from factlearn.lifelong.strategy import Learner

Penalties = Literal["running", "separate"]


class EWCConfig(ImportanceConfig):
    """Settings of EWC."""

    name: Literal["ewc"] = "ewc"
    lambda_: Strength = 100.0
    labels: Labels = "sampled"
    """Labels for the Fisher information: `true` is the expectation over the network's distribution (one pass per
    output), `sampled` one draw from it, `empirical` the training targets."""
    penalties: Penalties = "running"
    """`running`: one penalty around the last solution; `separate`: each task's Fisher around its own solution."""

    @model_validator(mode="after")
    def _targets_known(self) -> Self:
        if self.labels == "empirical" and self.importance != "train":
            raise ValueError("labels: the empirical Fisher needs training targets; set importance to train")
        return self


@method(
    title="EWC",
    summary="protects the parameters that the likelihood depends on (Elastic Weight Consolidation)",
    config=EWCConfig,
    importance=True,
)
class EWC(Consolidation):
    """Protects what the log-likelihood depends on.

    Attributes:
        labels: of the Fisher: the network's own distribution, drawn from it, or the targets.
        penalties: "running" around the last solution, or "separate" around each task's own.
    """

    def __init__(
        self,
        strength: float,
        form: PenaltyForm = "proximal",
        labels: Labels = "sampled",
        penalties: Penalties = "running",
        floor: float = 0.0,
        protect_weight: float = 0.0,
        protect_floor: float = 0.0,
    ) -> None:
        super().__init__(strength, form, floor, protect_weight, protect_floor)
        self.labels = labels
        self.penalties = penalties

    @classmethod
    def of(cls, config: Any) -> Self:
        """EWC with the settings of an `EWCConfig`."""
        return cls(config.lambda_, config.penalty, config.labels, config.penalties, config.floor, *config.mixture)

    def measure(self, learner: Learner) -> dict[str, Tensor]:
        """The diagonal of the Fisher information."""
        return learner.importance(Fisher.of(self.labels, learner.output))

    def use_measure(self, output: Output) -> Fisher:
        """The Fisher information; images in use have no targets, so labels are drawn instead."""
        return Fisher.of("sampled" if self.labels == "empirical" else self.labels, output)

    def accumulate(self, name: str, measured: Tensor, solution: Tensor) -> None:
        """Add a Fisher; with separate penalties the centre moves by the new Fisher's share of the sum."""
        centre = self.theta_star.get(name)
        super().accumulate(name, measured, solution)
        if self.penalties == "separate" and centre is not None:
            total = self.omega[name]
            share = torch.where(total > 0, measured / total.clamp_min(torch.finfo(total.dtype).tiny), 1.0)
            self.theta_star[name] = torch.lerp(centre, solution, share)
