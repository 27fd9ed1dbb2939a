"""The quadratic penalty lambda * sum omega * (theta - theta_star)^2 (eq. 3), in place, without autograd."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from factlearn.lifelong.config import PenaltyForm
from factlearn.lifelong.strategy import Learner


class QuadraticPenalty:
    """Holds each parameter at its old value, as firmly as it is important.

    There are two forms of the same penalty. `gradient` adds 2 * lambda * omega * (theta - theta_star) to the gradients;
    the explicit step diverges where 2 * rate * lambda * omega is large. `proximal` moves the parameters after the
    optimizer's step, theta <- (theta + c * theta_star) / (1 + c) with c = 2 * rate * lambda * omega, and never does.
    The rate is lr / (1 - momentum), so that both forms converge to the same point.

    A parameter without an omega, such as a new head's, is free. An omega may be one number for a whole parameter.
    """

    def __init__(
        self,
        omega: Mapping[str, Tensor],
        theta_star: Mapping[str, Tensor],
        strength: float,
        form: PenaltyForm,
    ) -> None:
        self.omega = dict(omega)
        self.theta_star = dict(theta_star)
        self.strength = strength
        self.form = form
        self._pull: list[Tensor] = []
        self._pull_rates: dict[str, float] = {}

    def after_backward(self, learner: Learner) -> None:
        """Add the penalty's gradient (form `gradient`)."""
        if self.form != "gradient" or not self.strength:
            return
        held = {name: p for name, p in self._held(learner).items() if p.grad is not None}
        if not held:
            return
        with torch.no_grad():
            change = torch._foreach_sub(list(held.values()), [self.theta_star[name] for name in held])
            torch._foreach_mul_(change, [self.omega[name] for name in held])
            gradients = [p.grad for p in held.values() if p.grad is not None]
            torch._foreach_add_(gradients, change, alpha=2 * self.strength)

    def after_step(self, learner: Learner) -> None:
        """Pull the parameters back (form `proximal`)."""
        if self.form != "proximal" or not self.strength:
            return
        held = self._held(learner)
        if not held:
            return
        rates = learner.effective_rates()
        with torch.no_grad():
            if rates != self._pull_rates:
                self._pull_rates = rates
                self._pull = [self._share(self.omega[name], rates[name]) for name in held]
            torch._foreach_lerp_(list(held.values()), [self.theta_star[name] for name in held], self._pull)

    def _held(self, learner: Learner) -> dict[str, nn.Parameter]:
        return {name: p for name, p in learner.parameters().items() if name in self.omega}

    def _share(self, omega: Tensor, rate: float) -> Tensor:
        """The fraction c / (1 + c) of the way back to theta_star that one step takes."""
        pull = omega * (2 * rate * self.strength)
        return pull.div_(pull + 1)

    def value(self, learner: Learner) -> float:
        """The penalty itself, for logging."""
        total = 0.0
        with torch.no_grad():
            for name, parameter in self._held(learner).items():
                total += float((self.omega[name] * (parameter - self.theta_star[name]) ** 2).sum())
        return self.strength * total
