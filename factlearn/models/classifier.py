"""The multi-head classifier: layers that all tasks share, and one head per task.

A head belongs to one task. It learns while its task does, is frozen afterwards, and importance never covers it: what
can be forgotten are the shared layers.
"""

import copy
from collections.abc import Sequence

from torch import Tensor, nn

from factlearn.errors import ModelError
from factlearn.models.config import ClassifierConfig, weights_files
from factlearn.models.network import LearningPart, TwoPartModel


class MultiHeadSuffix(LearningPart):
    """The layers that learn: those all tasks share, and one head per task.

    Attributes:
        heads: one linear layer per task, in the order of the tasks.
        open: how many of them answer: those of the tasks learned so far, and of the one being learned.
        only: a single head that answers, in a view made by `of_task`.
        one_head: whether all tasks share the only head there is.
    """

    open: int
    only: int | None
    one_head: bool

    def add_heads(self, classes: Sequence[int], *, shared: bool = False) -> None:
        """Add one head per task, with that many classes, or one for all tasks."""
        if shared and len(set(classes)) > 1:
            raise ModelError("Tasks that share a head must have the same number of classes; set model.heads to own.")
        self.heads = nn.ModuleList(nn.Linear(self.width, count) for count in (classes[:1] if shared else classes))
        self.open = len(classes)
        self.only = 0 if shared else None
        self.one_head = shared

    def forward(self, activations: Tensor) -> list[Tensor] | Tensor:
        """Activations of the frozen prefix to class scores: a list with one tensor per task, or one head's alone."""
        features = self.features(activations)
        if self.only is not None:
            return self.heads[self.only](features)  # type: ignore[no-any-return]
        return [head(features) for head in list(self.heads)[: self.open]]

    def of_task(self, task: int) -> "MultiHeadSuffix":
        """The same parameters under the same names, giving one task's scores alone."""
        view = copy.copy(self)
        view.only = 0 if self.one_head else task
        return view

    def task_scores(self, features: Tensor, learned: int) -> list[Tensor]:
        """The scores that each of the first `learned` tasks' heads reads from features."""
        if self.one_head:
            return [self.heads[0](features)] * learned
        return [head(features) for head in list(self.heads)[:learned]]

    def learn_heads(self, tasks: Sequence[int]) -> list[str]:
        """Let these tasks' heads learn and freeze all others; the names of the parameters that are theirs alone."""
        self.open = max(tasks) + 1
        if self.one_head:
            return []
        for number, head in enumerate(self.heads):
            head.requires_grad_(number in tasks)
        starts = tuple(f"heads.{task}." for task in tasks)
        return [name for name, _ in self.named_parameters() if name.startswith(starts)]


class MultiHeadClassifier(TwoPartModel[MultiHeadSuffix]):
    """Normalised images [N, 3, H, W], or rows of numbers, to a list of class scores, one tensor per task.

    Args:
        config: the network under the heads.
        classes: the number of classes of each task.
        values: length of a row, where the inputs are rows and not images.
    """

    def __init__(self, config: ClassifierConfig, classes: Sequence[int], values: int | None = None) -> None:
        super().__init__(config, MultiHeadSuffix, values)
        self.suffix.add_heads(classes, shared=config.heads == "shared")


def build_classifier(
    config: ClassifierConfig, classes: Sequence[int], values: int | None = None, *, pretrained: bool = True
) -> MultiHeadClassifier:
    """The network, with its pretrained weights unless others are to be loaded."""
    model = MultiHeadClassifier(config, classes, values)
    if pretrained:
        model.load_pretrained(*weights_files(config))
    return model
