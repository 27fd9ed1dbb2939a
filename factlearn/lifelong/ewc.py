"""Elastic Weight Consolidation (Kirkpatrick et al., PNAS 2017), as the paper compares with it.

    L = L_n + lambda sum_i F_i (theta_i - theta_star_i)^2      (eq. 3 with the Fisher information; no 1/2)

The paper follows Huszar (2017): one penalty, a running sum of Fishers around the last solution. The
original's separate penalties, each Fisher around its own task's solution, are an option that costs no more:
a sum of quadratics is one quadratic, around the Fisher-weighted mean of the solutions.
"""

from typing import Literal

import torch
from torch import Tensor

from factlearn.lifelong.consolidation import Consolidation
from factlearn.lifelong.fisher import Labels, fisher
from factlearn.lifelong.penalty import PenaltyForm
from factlearn.lifelong.strategy import Learner


class EWC(Consolidation):
    """Holds what the log-likelihood depends on.

    Attributes:
        labels: of the Fisher: the network's own distribution, drawn from it, or the targets.
        penalties: "running" around the last solution, or "separate" around each task's.
    """

    def __init__(
        self,
        strength: float,
        form: PenaltyForm = "proximal",
        labels: Labels = "sampled",
        penalties: Literal["running", "separate"] = "running",
        floor: float = 0.0,
    ) -> None:
        super().__init__(strength, form, floor)
        self.labels = labels
        self.penalties = penalties

    def measure(self, learner: Learner) -> dict[str, Tensor]:
        """The diagonal of the Fisher information."""
        return fisher(learner, self.labels)

    def accumulate(self, name: str, measured: Tensor, solution: Tensor) -> None:
        """Add a Fisher; with separate penalties the centre moves by the new Fisher's share of the sum."""
        centre = self.theta_star.get(name)
        super().accumulate(name, measured, solution)
        if self.penalties == "separate" and centre is not None:
            total = self.omega[name]
            share = torch.where(total > 0, measured / total.clamp_min(torch.finfo(total.dtype).tiny), 1.0)
            self.theta_star[name] = torch.lerp(centre, solution, share)
