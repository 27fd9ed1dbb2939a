"""The multi-head classifier: AlexNet, VGG-16 or a perceptron that all tasks share, and a head a task.

A head belongs to one task. It learns while its task does, is frozen afterwards, and importance never covers it: what
can be forgotten are the shared layers.
"""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from factlearn.classification.config import ClassifierConfig
from factlearn.errors import ModelError
from factlearn.learning.assembly import weights_file
from factlearn.models.embedder import BLOCK_ENDS
from factlearn.models.parts import LearningPart, TwoPartModel, split_layers
from factlearn.models.vision import torchvision

_ENDS = {
    "alexnet": {"none": 0, "conv1": 3, "conv2": 6, "conv3": 8, "conv4": 10, "conv5": 13},
    "vgg16": BLOCK_ENDS,
    "perceptron": {"none": 0},
}
_SIDES = {"alexnet": 6, "vgg16": 7}
_TITLES = {"alexnet": "AlexNet", "vgg16": "VGG-16"}
_CLASSIFIERS = {"alexnet": ("classifier.1", "classifier.4"), "vgg16": ("classifier.0", "classifier.3")}


class MultiHeadSuffix(LearningPart):
    """The layers that learn: those all tasks share, and a head a task.

    Attributes:
        heads: one linear layer a task, in the order of the tasks.
        open: how many of them answer: those of the tasks learned so far, and of the one being learned.
        only: a single head that answers, in a view made by `of_task`.
        one_head: whether all tasks share the only head there is.
    """

    open: int
    only: int | None
    one_head: bool

    def add_heads(self, classes: Sequence[int], *, shared: bool = False) -> None:
        """A head for each task, with that many classes; or one for all."""
        if shared and len(set(classes)) > 1:
            raise ModelError("Tasks that share a head must have the same number of classes; set model.heads to own.")
        self.heads = nn.ModuleList(nn.Linear(self.width, count) for count in (classes[:1] if shared else classes))
        self.open = len(classes)
        self.only = 0 if shared else None
        self.one_head = shared

    def forward(self, activations: Tensor) -> list[Tensor] | Tensor:
        """Activations of the frozen prefix to class scores: a list with one tensor a task, or one head's alone."""
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


class MultiHeadClassifier(TwoPartModel):
    """Images [N, 3, H, W], normalised as for ImageNet, or rows of values, to a list of class scores, one a task.

    Args:
        config: the network under the heads.
        classes: the number of classes of each task.
        values: length of a row, where the inputs are rows and not images.
    """

    def __init__(self, config: ClassifierConfig, classes: Sequence[int], values: int | None = None) -> None:
        super().__init__()
        self.architecture, self.frozen = config.architecture, config.frozen
        ends = _ENDS[config.architecture]
        used = ends["none"] if config.architecture == "perceptron" else ends[f"conv{config.blocks}"]
        self.prefix, convolutions = split_layers(_layers(config.architecture), ends[config.frozen], used)
        if config.architecture == "perceptron":
            pool: nn.Module = nn.Identity()
            shape: tuple[int, ...] = (values or 3 * config.image_size**2,)
        else:
            with torch.no_grad():
                size = config.image_size
                channels, side = convolutions(self.prefix(torch.zeros(1, 3, size, size))).shape[1:3]
            side = min(_SIDES[config.architecture], side)
            pool, shape = nn.AdaptiveAvgPool2d(side), (channels, side, side)
        self.suffix: MultiHeadSuffix = MultiHeadSuffix(
            convolutions,
            pool,
            shape,
            hidden=config.hidden,
            dropout=config.dropout,
            standardise=config.standardise,
        )
        self.suffix.add_heads(classes, shared=config.heads == "shared")

    def prefix_name(self) -> str:
        """The architecture and its last frozen block."""
        return f"{self.architecture} {self.frozen}"


def build_classifier(
    config: ClassifierConfig, classes: Sequence[int], values: int | None = None, *, pretrained: bool = True
) -> MultiHeadClassifier:
    """The network, with its pretrained weights unless others are to be loaded."""
    model = MultiHeadClassifier(config, classes, values)
    if pretrained and config.weights is not None:
        architecture = config.architecture
        model.load_convolutional(weights_file(config.weights), _TITLES[architecture], _CLASSIFIERS[architecture])
    return model


def _layers(architecture: str) -> list[nn.Module]:
    """torchvision's convolutional layers, with fresh weights; its classifier is never built."""
    if architecture == "perceptron":
        return []
    if architecture == "vgg16":
        return list(torchvision.models.vgg.make_layers(torchvision.models.vgg.cfgs["D"]))
    with torch.device("meta"):
        layers = torchvision.models.alexnet(weights=None).features
    layers.to_empty(device="cpu")
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            layer.reset_parameters()
    return list(layers)
