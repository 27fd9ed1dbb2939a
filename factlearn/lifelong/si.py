"""Synaptic Intelligence (Zenke, Poole, Ganguli, ICML 2017).

    w_i      = - sum_steps  g_i * (theta_i after - theta_i before)                  (their eq. 3)
    omega_i += max(0, w_i) / ((theta_i at the end - theta_i at the start)^2 + xi)   (their eq. 5)
    L        = L_n + c sum_i omega_i (theta_i - theta_star_i)^2                     (their eq. 4)

g is the gradient of the task's loss alone, before the penalty is added. A parameter's contribution to the fall of the
loss can be negative where the path turned; such a parameter is not important.
"""

from typing import Any, Literal, Self

import torch
from pydantic import Field
from torch import Tensor

from factlearn.lifelong.config import PenaltyConfig, PenaltyForm
from factlearn.lifelong.consolidation import Consolidation
from factlearn.lifelong.registry import method
from factlearn.lifelong.strategy import Learner, group_of, labelled


class SIConfig(PenaltyConfig):
    """Settings of SI."""

    name: Literal["si"] = "si"
    damping: float = Field(0.1, gt=0)
    """Xi, added to the denominator so that parameters that hardly moved keep a finite importance."""


@method(
    title="SI",
    summary="protects the parameters that reduced the loss during training (Synaptic Intelligence)",
    config=SIConfig,
)
class SI(Consolidation):
    """Protects what reduced the loss; importance comes from the training path, not from images.

    Attributes:
        damping: xi, which keeps the importance of parameters that hardly moved finite.
        path: w, the path integral of the task being learned.
        start: the parameters at the start of the task.
    """

    def __init__(self, strength: float, form: PenaltyForm = "proximal", damping: float = 0.1) -> None:
        super().__init__(strength, form)
        self.damping = damping
        self.path: dict[str, Tensor] = {}
        self.start: dict[str, Tensor] = {}
        self._before: dict[str, Tensor] = {}
        self._gradient: dict[str, Tensor] = {}

    @classmethod
    def of(cls, config: Any) -> Self:
        """SI with the settings of an `SIConfig`."""
        return cls(config.lambda_, config.penalty, config.damping)

    def before_task(self, learner: Learner) -> None:
        """Start the path, or continue the one from a checkpoint."""
        super().before_task(learner)
        resumed = bool(self.path)
        for name, parameter in learner.parameters().items():
            theta = parameter.detach()
            if resumed:
                self.path[name] = self.path[name].to(theta.device, copy=True)
                self.start[name] = self.start[name].to(theta.device)
            else:
                self.path[name] = torch.zeros_like(theta)
                self.start[name] = theta.clone()
            self._before[name] = theta.clone()
            self._gradient[name] = torch.zeros_like(theta)

    def after_backward(self, learner: Learner) -> None:
        """Copy the task's gradient and the parameters: the optimizer overwrites their storage."""
        with torch.no_grad():
            for name, parameter in learner.parameters().items():
                self._before[name].copy_(parameter)
                if parameter.grad is None:
                    self._gradient[name].zero_()
                else:
                    self._gradient[name].copy_(parameter.grad)
        super().after_backward(learner)

    def after_step(self, learner: Learner) -> None:
        """Add this step to the path integral, the penalty's pull included."""
        super().after_step(learner)
        parameters = learner.parameters()
        with torch.no_grad():
            back = [self._before[name] for name in parameters]
            torch._foreach_sub_(back, list(parameters.values()))  # minus the step
            gradients = [self._gradient[name] for name in parameters]
            torch._foreach_addcmul_([self.path[name] for name in parameters], gradients, back)

    def measure(self, learner: Learner) -> dict[str, Tensor]:
        """The path integral divided by the squared distance travelled."""
        omega = {}
        for name, parameter in learner.parameters().items():
            travelled = parameter.detach() - self.start[name]
            omega[name] = self.path[name].clamp_min(0) / (travelled.square() + self.damping)
        return omega

    def after_task(self, learner: Learner) -> None:
        """Turn the path into importance and end it."""
        super().after_task(learner)
        for held in (self.path, self.start, self._before, self._gradient):
            held.clear()

    def state(self) -> dict[str, Tensor]:
        """Importance and the last solution; in the middle of a task, the path so far."""
        return super().state() | labelled(path=self.path, start=self.start)

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore importance, the last solution and the path."""
        super().load_state(state)
        self.path = group_of(state, "path")
        self.start = group_of(state, "start")
