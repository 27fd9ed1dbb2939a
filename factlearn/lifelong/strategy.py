"""The moments at which a lifelong method acts.

A strategy is told of named moments of learning and keeps whatever state it needs between them. The training loop knows
no method by name.

    stages        which tasks are learned together, in which order
    before_task   theta is what the last task left; nothing of the new task was learned yet
    after_backward  the gradients of the task's loss are there, the optimizer has not stepped
    after_step    the optimizer has stepped
    after_task    the task is learned; its images can still be looked at
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from torch import Tensor, nn
from torch.optim import Optimizer

T = TypeVar("T")


@dataclass
class Learner:
    """What a strategy sees of the training.

    Attributes:
        module: the part of the network that learns.
        optimizer: its groups carry the current learning rates.
        task: number of the task being learned, from 0.
        inputs: batches of the current task's training images, without labels, as `module` takes them.
    """

    module: nn.Module
    optimizer: Optimizer
    task: int = 0
    inputs: Iterable[Tensor] = field(default_factory=list)

    def parameters(self) -> dict[str, nn.Parameter]:
        """The parameters that learn, by name."""
        return {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    def effective_rates(self) -> dict[str, float]:
        """How far one unit of steady gradient moves each parameter a step: lr / (1 - momentum)."""
        rates = {}
        for group in self.optimizer.param_groups:
            rate = group["lr"] / (1 - group.get("momentum", 0.0))
            rates.update({id(parameter): rate for parameter in group["params"]})
        return {name: rates[id(parameter)] for name, parameter in self.parameters().items()}


class Strategy:
    """A lifelong method; this base does nothing at every moment, which is FineTune."""

    def stages(self, tasks: Sequence[T]) -> list[list[T]]:
        """Groups of tasks, each learned as one; by default one task after the other."""
        return [[task] for task in tasks]

    def before_task(self, learner: Learner) -> None:
        """A new task begins."""

    def after_backward(self, learner: Learner) -> None:
        """The gradients of the task's loss are ready."""

    def after_step(self, learner: Learner) -> None:
        """The optimizer has stepped."""

    def after_task(self, learner: Learner) -> None:
        """The task is learned."""

    def state(self) -> dict[str, Tensor]:
        """Everything the strategy must remember until the next task."""
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take back what `state` gave."""
