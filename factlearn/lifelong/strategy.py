"""The protocol of a lifelong method: hooks that the training loop calls.

A strategy is called at named moments of training and keeps whatever state it needs between them. The training loop
knows no method by name.

    stages          which tasks are learned together, in which order
    epochs          how many passes the loop makes over a task's images
    before_task     theta is what the last task left; nothing of the new task has been learned
    extra_loss      the module has processed a batch; what is returned is added to the task's loss
    after_backward  the gradients are ready, the optimizer has not stepped
    after_step      the optimizer has stepped
    after_task      the task is learned; its images are still available
    after_sequence  the last task is learned; the module can be given its final weights

When an interrupted task is resumed, `load_state` is called first and `before_task` once more: whatever a strategy fixed
at the start of the task must then come from its state, because theta has changed since.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from factlearn import processes
from factlearn.errors import ModelError
from factlearn.lifelong.importance import Importance, estimate
from factlearn.lifelong.measures import Measure, Output
from factlearn.lifelong.memory import Memory, bytes_of, tensors_in

T = TypeVar("T")


@dataclass
class Learner:
    """The training state that a strategy sees.

    Attributes:
        module: the part of the network that learns. It returns one tensor or, where each task has its own head, a list
            with one tensor per task.
        optimizer: its groups carry the current learning rates.
        task: number of the task being learned, from 0.
        inputs: batches to look at after the task, as `module` takes them, by default the task's training images; a
            batch may be a tuple with the targets, which only the empirical Fisher and ridge need, and the number of
            each image's label (fact or class) among all of the sequence, which only ridge needs. Of several processes
            that learn together, every one has all of them.
        output: what the outputs are: unnormalised class scores, or a point in an embedding space.
        epoch: number of the current epoch of the task, from 0; the loop keeps it up to date.
        head: names of the parameters that belong to this task alone; empty where tasks share all.
        measured: the same network returning only the output that importance is about, if that is not the whole output:
            with heads, the tensor of the task's own. Its parameters have the module's names.
        targets: of every label so far the point in the embedding space [labels, units, D], NaN for units it lacks;
            None where labels have none.
        protected: the same network set up to measure importance on what is protected besides, if anything is.
        together: whether processes share the batches of a step and of importance, or each takes all of them.
    """

    module: nn.Module
    optimizer: Optimizer
    task: int = 0
    inputs: Iterable[Any] = field(default_factory=list)
    output: Output = "embedding"
    epoch: int = 0
    head: Collection[str] = ()
    measured: nn.Module | None = None
    targets: Tensor | None = None
    protected: "Learner | None" = None
    together: bool = True

    def parameters(self) -> dict[str, nn.Parameter]:
        """The trainable parameters by name."""
        return {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    def shared(self) -> dict[str, nn.Parameter]:
        """The trainable parameters that other tasks use too: what can be forgotten."""
        return {name: p for name, p in self.parameters().items() if name not in self.head}

    def effective_rates(self) -> dict[str, float]:
        """How far one unit of steady gradient moves each parameter per step: lr / (1 - momentum)."""
        rates = {}
        for group in self.optimizer.param_groups:
            rate = group["lr"] / (1 - group.get("momentum", 0.0))
            rates.update({id(parameter): rate for parameter in group["params"]})
        return {name: rates[id(parameter)] for name, parameter in self.parameters().items()}

    def own_inputs(self) -> Iterator[Any]:
        """The batches of `inputs` that this process takes: all of them, unless several learn together."""
        return processes.own(processes.shared(self.inputs))

    def importance(self, measure: str | Measure) -> dict[str, Tensor]:
        """How important each parameter is on `inputs`; several processes share them and add up what they find."""
        with processes.each_alone(not self.together):
            found = estimate(self.measured or self.module, processes.shared(self.inputs), measure, seed=self.task)
            sums = {name: processes.total(each) for name, each in found.sums.items()}
            count = processes.total(torch.tensor(found.count, dtype=torch.float64))
        return Importance(sums, float(count)).mean()


class Strategy:
    """A lifelong method; the hooks of this base class do nothing, which is FineTune.

    Attributes:
        weighs_labels: whether a run is adapted by giving chosen facts or classes more weight, not by importance.
    """

    weighs_labels: ClassVar[bool] = False

    @classmethod
    def of(cls, config: Any) -> Self:
        """The method with the settings of its own config class."""
        return cls()

    def stages(self, tasks: Sequence[T]) -> list[list[T]]:
        """Groups of tasks to learn together; by default one task at a time."""
        return [[task] for task in tasks]

    def epochs(self, asked: int) -> int:
        """How many passes of gradient steps a task takes, given the number in the config."""
        return asked

    def before_task(self, learner: Learner) -> None:
        """Called when a task starts, or resumes after an interruption."""

    def extra_loss(self, learner: Learner, inputs: Tensor, outputs: Any) -> Tensor | None:
        """What to add to the loss of a batch that the module turned into `outputs`."""
        return None

    def after_backward(self, learner: Learner) -> None:
        """Called when the gradients of the loss are ready."""

    def after_step(self, learner: Learner) -> None:
        """Called after the optimizer's step."""

    def after_task(self, learner: Learner) -> None:
        """Called when the task is learned."""

    def after_sequence(self, learner: Learner) -> None:
        """Called when all tasks are learned."""

    def use_measure(self, output: Output) -> str | Measure:
        """What to measure on unlabelled images, for methods registered with `importance=True`."""
        self._no_importance()

    def replace_importance(self, importance: Mapping[str, Tensor]) -> None:
        """Take this mean importance in place of that of all tasks so far, for the same methods."""
        self._no_importance()

    def remeasure(self, learner: Learner) -> None:
        """Measure importance on the learner's inputs, in place of that of all tasks so far."""
        self.replace_importance(learner.importance(self.use_measure(learner.output)))

    def add_importance(self, importance: Mapping[str, Tensor], weight: float, floor: float = 0.0) -> None:
        """Add this mean importance and a floor to that of all tasks so far, see `mixture.mixed`; same methods."""
        self._no_importance()

    def _no_importance(self) -> NoReturn:
        raise ModelError(f"{type(self).__name__} does not measure importance on images; use MAS or EWC.")

    def state(self) -> dict[str, Tensor]:
        """Everything the strategy must remember, in the middle of a task as well as between tasks."""
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore what `state` returned."""

    def memory(self) -> Memory:
        """The bytes held now and those a checkpoint would keep, counted tensor by tensor."""
        return Memory(training_bytes=bytes_of(tensors_in(self)), stored_bytes=bytes_of(self.state().values()))


def labelled(**groups: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Groups of tensors as one flat dict: `labelled(omega={"w": t})` is `{"omega.w": t}`."""
    return {f"{kind}.{name}": tensor for kind, group in groups.items() for name, tensor in group.items()}


def group_of(state: Mapping[str, Tensor], kind: str) -> dict[str, Tensor]:
    """One group of what `labelled` made."""
    start = f"{kind}."
    return {name.removeprefix(start): tensor for name, tensor in state.items() if name.startswith(start)}
