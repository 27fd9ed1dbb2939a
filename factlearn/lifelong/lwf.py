"""Learning without Forgetting (Li and Hoiem, ECCV 2016).

    L = L_n + lambda L_old(y_old, F(x)),   y_old = F_old(x)        on the new task's images  (their eq. 4)
    L_old: cross-entropy of probabilities softened by the temperature T = 2                  (their eq. 2, 3)

For an embedding, where there are no probabilities, L_old is the squared distance between the new and the
old vector, as in the task's own loss. Where tasks have heads of their own, the new one is warmed up first:
the rest stays as it is for the first epochs.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from factlearn.lifelong.gradients.forward import leaves
from factlearn.lifelong.strategy import Learner, Strategy, group_of, labelled


class LwF(Strategy):
    """Keeps the outputs on new images what the network before the task would have said.

    Attributes:
        strength: lambda of the distillation.
        temperature: T, by which class scores are softened.
        warmup_epochs: how long a new head learns alone.
        teacher: the network before the task, while one is learned.
    """

    def __init__(self, strength: float, temperature: float = 2.0, warmup_epochs: int = 5) -> None:
        self.strength = strength
        self.temperature = temperature
        self.warmup_epochs = warmup_epochs
        self.teacher: nn.Module | None = None
        self._resumed: dict[str, Tensor] = {}

    def before_task(self, learner: Learner) -> None:
        """Keep the network as the last task left it."""
        if learner.task == 0:
            return
        self.teacher = copy.deepcopy(learner.module).requires_grad_(False).eval()
        if self._resumed:
            self.teacher.load_state_dict(self._resumed)
            self._resumed = {}

    def extra_loss(self, learner: Learner, inputs: Tensor, outputs: Any) -> Tensor | None:
        """How far the outputs of the old tasks have moved on this batch."""
        if self.teacher is None:
            return None
        with torch.no_grad():
            before = leaves(self.teacher(inputs))
        return self.strength * self.moved(learner, leaves(outputs), before)

    def moved(self, learner: Learner, outputs: list[Tensor], before: list[Tensor]) -> Tensor:
        """The distillation loss, averaged over images and summed over heads."""
        if learner.head:  # the new head has nothing to remember
            before = before[: learner.task]
        pairs = zip(outputs, before, strict=False)
        if learner.output == "scores":
            return torch.stack([softened_divergence(new, old, self.temperature) for new, old in pairs]).sum()
        return torch.stack([(new - old).square().flatten(1).sum(1).mean() for new, old in pairs]).sum()

    def after_backward(self, learner: Learner) -> None:
        """Let the new head learn alone while it warms up, and keep the step stable at any lambda.

        A parameter without a gradient is passed by. Above lambda = 1 the whole objective is divided by lambda: it is
        least at the same point, and the distillation never weighs more than a loss does at the learning rate chosen.
        """
        if self.teacher is None:
            return
        if learner.head and learner.epoch < self.warmup_epochs:
            for name, parameter in learner.parameters().items():
                if name not in learner.head:
                    parameter.grad = None
        elif self.strength > 1:
            gradients = [p.grad for p in learner.parameters().values() if p.grad is not None]
            torch._foreach_mul_(gradients, 1 / self.strength)

    def after_task(self, learner: Learner) -> None:
        """The network itself is all that is kept."""
        self.teacher = None

    def state(self) -> dict[str, Tensor]:
        """Nothing between tasks; in the middle of one, the network before it."""
        return labelled(teacher=self._resumed if self.teacher is None else self.teacher.state_dict())

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take back the network before the task."""
        self._resumed = group_of(state, "teacher")
        self.teacher = None


def softened_divergence(scores: Tensor, before: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of softened distributions less the old one's entropy, so that no change costs nothing."""
    new = (scores / temperature).log_softmax(1)
    old = (before / temperature).log_softmax(1)
    return (old.exp() * (old - new)).sum(1).mean()
