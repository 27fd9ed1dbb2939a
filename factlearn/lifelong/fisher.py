"""The diagonal of the Fisher information after a task, which EWC and mode-IMM weigh parameters by.

A classifier's likelihood is the softmax of its scores. An embedding has no class probabilities: its squared
distance to the target is, up to a factor, the negative log-likelihood of a Gaussian of variance 1 around the
output, so that the Fisher is made of gradients of the embedding loss.
"""

from typing import Literal

from torch import Tensor

from factlearn.lifelong.importance import estimate
from factlearn.lifelong.measures import Fisher
from factlearn.lifelong.strategy import Learner

Labels = Literal["true", "sampled", "empirical"]


def fisher(learner: Learner, labels: Labels) -> dict[str, Tensor]:
    """F = 1/N sum_k (d log p(y | x_k) / d theta)^2, for labels y from where `labels` says."""
    measure = Fisher(labels, "categorical" if learner.output == "scores" else "gaussian")
    return estimate(learner.measured or learner.module, learner.inputs, measure, seed=learner.task).mean()
