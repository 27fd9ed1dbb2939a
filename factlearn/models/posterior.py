"""Facts by their posterior: scores of the known facts, turned into vectors of the language space.

    p      = softmax(scores / temperature)          over the facts learned so far
    v_u    = sum_f p_f t_fu                         t_fu: the word vector of fact f's unit u, zero if it has none

The vector of an image is the mean of the facts' word vectors under the posterior, unit by unit. It lies in the language
space, so wildcards, unseen words and the index work as with the distance readout.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from factlearn.models.classifier import MultiHeadSuffix
from factlearn.models.config import ModelConfig, weights_files
from factlearn.models.network import TwoPartModel


class PosteriorSuffix(MultiHeadSuffix):
    """The layers that learn, one head of fact scores per task, and the facts' word vectors.

    Attributes:
        units: word vectors [F, 3, D] of all facts, in the order of the heads.
        temperature: divides the scores.
        answers: "scores" while it is trained (a list, one tensor per task), "vectors" otherwise.
    """

    units: Tensor
    temperature: Tensor
    answers: str

    def add_facts(self, units: Tensor) -> None:
        """Set the word vectors that the posterior averages."""
        self.register_buffer("units", units)
        self.register_buffer("temperature", torch.ones(()))
        self.answers = "vectors"

    def forward(self, activations: Tensor) -> list[Tensor] | Tensor:
        """Activations of the frozen prefix to vectors [N, 3, D], or to scores."""
        scores = super().forward(activations)
        if self.answers == "scores" or isinstance(scores, Tensor):
            return scores
        posterior = (torch.cat(scores, dim=1) / self.temperature).softmax(dim=1)
        return torch.einsum("nf,fud->nud", posterior, self.units[: posterior.shape[1]])


class PosteriorEmbedder(TwoPartModel[PosteriorSuffix]):
    """Normalised images [N, 3, H, W] to fact vectors [N, 3, D] by the posterior of the facts known.

    Args:
        config: the network under the heads.
        tasks: the number of facts of each task.
        units: word vectors [F, 3, D] of all facts, task after task.
    """

    def __init__(self, config: ModelConfig, tasks: Sequence[int], units: Tensor) -> None:
        super().__init__(config, PosteriorSuffix)
        self.suffix.add_heads(tasks)
        self.suffix.add_facts(units)


def build_posterior(
    config: ModelConfig, tasks: Sequence[int], units: Tensor, *, pretrained: bool = True
) -> PosteriorEmbedder:
    """The network, with its pretrained weights unless others are to be loaded."""
    model = PosteriorEmbedder(config, tasks, units)
    if pretrained:
        model.load_pretrained(*weights_files(config))
    return model
