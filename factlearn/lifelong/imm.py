"""Incremental Moment Matching (Lee et al., NeurIPS 2017), mean and mode.

    L     = L_n + lambda sum_i (theta_i - theta_star_i)^2     L2-transfer from the last task's solution
    theta = 1/K sum_k theta_k                                 mean-IMM, at the end of the sequence
    theta = (sum_k F_k)^-1 sum_k F_k theta_k                  mode-IMM, F_k the diagonal Fisher after task k

All tasks have the same weight, so both merges need only running sums, not every task's model.
"""

from typing import Any, Literal, Self

import torch
from torch import Tensor

from factlearn.lifelong.config import PenaltyConfig, PenaltyForm, Strength
from factlearn.lifelong.consolidation import Consolidation
from factlearn.lifelong.measures import Fisher, Labels
from factlearn.lifelong.registry import method
from factlearn.lifelong.strategy import Learner, group_of, labelled

# A parameter that no task's likelihood depends on has no mode; it gets the mean.
_FLOOR = 1e-8


class MeanIMMConfig(PenaltyConfig):
    """Settings of mean-IMM."""

    name: Literal["imm-mean"] = "imm-mean"
    lambda_: Strength = 0.01


class ModeIMMConfig(PenaltyConfig):
    """Settings of mode-IMM."""

    name: Literal["imm-mode"] = "imm-mode"
    lambda_: Strength = 0.01
    labels: Labels = "sampled"
    """Labels for the Fisher information, as for EWC."""


@method(
    title="IMM (mean)",
    summary="averages the networks of all tasks (Incremental Moment Matching)",
    config=MeanIMMConfig,
)
class MeanIMM(Consolidation):
    """Holds every parameter equally, and finally writes the mean of all solutions into the network.

    Until the sequence ends the network is the last task's. A task learned after the merge starts from the last solution
    again.

    Attributes:
        precision: the running sum of each solution's weights.
        weighted: the running sum of the weighted solutions.
        merged: whether the network holds the merged weights.
    """

    def __init__(self, strength: float, form: PenaltyForm = "proximal") -> None:
        super().__init__(strength, form)
        self.precision: dict[str, Tensor] = {}
        self.weighted: dict[str, Tensor] = {}
        self.merged = False

    @classmethod
    def of(cls, config: Any) -> Self:
        """Mean-IMM with the settings of a `MeanIMMConfig`."""
        return cls(config.lambda_, config.penalty)

    def weigh(self, learner: Learner) -> dict[str, Tensor]:
        """The weight of each parameter of this solution in the merge: all the same."""
        return {name: torch.ones((), device=p.device) for name, p in learner.parameters().items()}

    def measure(self, learner: Learner) -> dict[str, Tensor]:
        """L2-transfer holds all parameters equally."""
        return {name: torch.ones((), device=p.device) for name, p in learner.parameters().items()}

    def accumulate(self, name: str, measured: Tensor, solution: Tensor) -> None:
        """L2-transfer does not become firmer from task to task."""
        self.omega[name] = measured
        self.theta_star[name] = solution.clone()

    def before_task(self, learner: Learner) -> None:
        """Leave the merged weights if a finished sequence is continued."""
        super().before_task(learner)
        if self.merged:
            self._write(learner, self.theta_star)
            self.merged = False

    def after_task(self, learner: Learner) -> None:
        """Add this solution to the running sums."""
        super().after_task(learner)
        weights = self.weigh(learner)
        for name, weight in ((name, weights[name]) for name in learner.shared()):
            old = self.precision.get(name)
            term = weight * self.theta_star[name]
            self.precision[name] = weight if old is None else old.to(weight.device) + weight
            self.weighted[name] = term if old is None else self.weighted[name].to(weight.device) + term

    def after_sequence(self, learner: Learner) -> None:
        """Write the merged weights into the network."""
        self._write(learner, {name: self.weighted[name] / self.precision[name] for name in self.weighted})
        self.merged = True

    def _write(self, learner: Learner, weights: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, parameter in learner.parameters().items():
                if name in weights:
                    parameter.copy_(weights[name])

    def state(self) -> dict[str, Tensor]:
        """The last solution, the running sums, and whether they are merged."""
        merged = {"merged": torch.ones(())} if self.merged else {}
        return super().state() | labelled(precision=self.precision, weighted=self.weighted) | merged

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore what `state` returned."""
        super().load_state(state)
        self.precision = group_of(state, "precision")
        self.weighted = group_of(state, "weighted")
        self.merged = "merged" in state


@method(
    title="IMM (mode)",
    summary="averages the networks of all tasks, weighted by Fisher information (Incremental Moment Matching)",
    config=ModeIMMConfig,
)
class ModeIMM(MeanIMM):
    """Like mean-IMM, but each solution is weighted by how much its own task's likelihood depends on it.

    Attributes:
        labels: of the Fisher, see `EWC`.
    """

    def __init__(self, strength: float, form: PenaltyForm = "proximal", labels: Labels = "sampled") -> None:
        super().__init__(strength, form)
        self.labels = labels

    @classmethod
    def of(cls, config: Any) -> Self:
        """Mode-IMM with the settings of a `ModeIMMConfig`."""
        return cls(config.lambda_, config.penalty, config.labels)

    def weigh(self, learner: Learner) -> dict[str, Tensor]:
        """The diagonal of the Fisher information."""
        fisher = learner.importance(Fisher.of(self.labels, learner.output))
        return {name: diagonal + _FLOOR for name, diagonal in fisher.items()}
