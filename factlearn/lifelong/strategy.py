"""The moments at which a lifelong method acts.

A strategy is told of named moments of learning and keeps whatever state it needs between them. The training
loop knows no method by name.

    stages          which tasks are learned together, in which order
    epochs          how often the loop passes over a task's images
    before_task     theta is what the last task left; nothing of the new task was learned yet
    extra_loss      the module has seen a batch; what is returned is added to the task's loss
    after_backward  the gradients are there, the optimizer has not stepped
    after_step      the optimizer has stepped
    after_task      the task is learned; its images can still be looked at
    after_sequence  the last task is learned; the module can be given its final weights

After a task was interrupted, `load_state` comes first and `before_task` is told once more: whatever a
strategy fixed at the task's beginning must then come from its state, since theta has moved on.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from torch import Tensor, nn
from torch.optim import Optimizer

from factlearn.lifelong.memory import Memory, bytes_of, tensors_in

T = TypeVar("T")


@dataclass
class Learner:
    """What a strategy sees of the training.

    Attributes:
        module: the part of the network that learns. It gives one tensor, or, where each task has a head of
            its own, a list with one tensor a task.
        optimizer: its groups carry the current learning rates.
        task: number of the task being learned, from 0.
        inputs: batches to look at after the task, as `module` takes them, by default the task's training
            images; a batch may be a pair with the targets, which only the empirical Fisher needs.
        output: what the outputs mean, unnormalised class scores or a point in an embedding space.
        epoch: number of the task's epoch being learned, from 0; the loop keeps it current.
        head: names of the parameters that belong to this task alone; empty where tasks share all.
        measured: the same network giving only the output that importance is about, where it is not the whole: with
            heads, one tensor, the task's own head. Its parameters have the module's names.
    """

    module: nn.Module
    optimizer: Optimizer
    task: int = 0
    inputs: Iterable[Any] = field(default_factory=list)
    output: Literal["embedding", "scores"] = "embedding"
    epoch: int = 0
    head: Collection[str] = ()
    measured: nn.Module | None = None

    def parameters(self) -> dict[str, nn.Parameter]:
        """The parameters that learn, by name."""
        return {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    def shared(self) -> dict[str, nn.Parameter]:
        """Those of them that other tasks use as well: what can be forgotten."""
        return {name: p for name, p in self.parameters().items() if name not in self.head}

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

    def epochs(self, asked: int) -> int:
        """How many times a task's images are learned from by gradient steps, where the config asks for so many."""
        return asked

    def before_task(self, learner: Learner) -> None:
        """A new task begins, or goes on after an interruption."""

    def extra_loss(self, learner: Learner, inputs: Tensor, outputs: Any) -> Tensor | None:
        """What to add to the loss of a batch that the module turned into `outputs`."""
        return None

    def after_backward(self, learner: Learner) -> None:
        """The gradients of the loss are ready."""

    def after_step(self, learner: Learner) -> None:
        """The optimizer has stepped."""

    def after_task(self, learner: Learner) -> None:
        """The task is learned."""

    def after_sequence(self, learner: Learner) -> None:
        """All tasks are learned."""

    def state(self) -> dict[str, Tensor]:
        """Everything the strategy must remember, in the middle of a task as well as between tasks."""
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take back what `state` gave."""

    def memory(self) -> Memory:
        """The bytes held at this moment and those a checkpoint would keep, counted tensor by tensor."""
        return Memory(training_bytes=bytes_of(tensors_in(self)), stored_bytes=bytes_of(self.state().values()))


def labelled(**groups: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Groups of tensors as one flat dict: `labelled(omega={"w": t})` is `{"omega.w": t}`."""
    return {f"{kind}.{name}": tensor for kind, group in groups.items() for name, tensor in group.items()}


def group_of(state: Mapping[str, Tensor], kind: str) -> dict[str, Tensor]:
    """One group back out of what `labelled` made."""
    start = f"{kind}."
    return {name.removeprefix(start): tensor for name, tensor in state.items() if name.startswith(start)}
