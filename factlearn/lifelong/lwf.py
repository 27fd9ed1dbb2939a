"""Learning without Forgetting (Li and Hoiem, ECCV 2016).

    L = L_n + lambda L_old(y_old, F(x)),   y_old = F_old(x)        on the new task's images  (their eq. 4)
    L_old: cross-entropy of probabilities softened by the temperature T = 2                  (their eq. 2, 3)

An embedding has no probabilities; there L_old is the squared distance between the new and the old vector, as in the
task's own loss. Where each task has its own head, the new one is warmed up first: for the first epochs the rest of the
network does not change.
"""

import copy
from typing import Any, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from factlearn.lifelong.config import MethodConfig, Strength
from factlearn.lifelong.gradients.forward import leaves
from factlearn.lifelong.registry import method
from factlearn.lifelong.strategy import Learner, Strategy, group_of, labelled


class DistillationConfig(MethodConfig):
    """What LwF and EBLL share."""

    lambda_: Strength = 1.0
    """Weight of the distillation."""
    temperature: float = Field(2.0, gt=0)
    """Softmax temperature for distilling class scores; embeddings are distilled unchanged."""
    warmup_epochs: int = Field(5, ge=0)
    """Epochs in which only the new head learns, if each task has its own head."""

    @property
    def strength(self) -> float:
        """Lambda."""
        return self.lambda_


class LwFConfig(DistillationConfig):
    """Settings of LwF."""

    name: Literal["lwf"] = "lwf"


@method(
    title="LwF",
    summary="distils the old network's outputs on the new images (Learning without Forgetting)",
    config=LwFConfig,
)
class LwF(Strategy):
    """Keeps the outputs on new images close to those of the network before the task.

    Attributes:
        strength: lambda of the distillation.
        temperature: T, which softens class scores.
        warmup_epochs: how many epochs a new head learns alone.
        teacher: the network before the task, while one is being learned.
    """

    def __init__(self, strength: float, temperature: float = 2.0, warmup_epochs: int = 5) -> None:
        self.strength = strength
        self.temperature = temperature
        self.warmup_epochs = warmup_epochs
        self.teacher: nn.Module | None = None
        self._resumed: dict[str, Tensor] = {}

    @classmethod
    def of(cls, config: Any) -> Self:
        """LwF with the settings of an `LwFConfig`."""
        return cls(config.lambda_, config.temperature, config.warmup_epochs)

    def before_task(self, learner: Learner) -> None:
        """Keep a copy of the network as the last task left it."""
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
        """Let the new head learn alone during warm-up, and keep the step stable at any lambda.

        Optimizers skip parameters without a gradient. Above lambda = 1 the whole objective is divided by lambda: its
        minimum stays where it is, and the distillation never outweighs a plain loss at the chosen learning rate.
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
        """Drop the copy: only the network itself is kept."""
        self.teacher = None

    def state(self) -> dict[str, Tensor]:
        """Nothing between tasks; in the middle of one, the network before it."""
        return labelled(teacher=self._resumed if self.teacher is None else self.teacher.state_dict())

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore the network before the task."""
        self._resumed = group_of(state, "teacher")
        self.teacher = None


def softened_divergence(scores: Tensor, before: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of softened distributions minus the old one's entropy, so that no change costs nothing."""
    new = (scores / temperature).log_softmax(1)
    old = (before / temperature).log_softmax(1)
    return (old.exp() * (old - new)).sum(1).mean()
