"""Memory Aware Synapses, global form (Aljundi et al., ECCV 2018, section 4.1).

    omega = 1/N sum_k |g(x_k)|,  g(x_k) = d ||F(x_k)||^2 / d theta                  (eq. 2)
    L = L_n + lambda sum omega (theta - theta_star)^2                               (eq. 3)

The importance needs no labels, so it can be measured on any images, those of
the use as well as of the training.
"""

from typing import ClassVar

from torch import Tensor

from factlearn.lifelong.consolidation import Consolidation
from factlearn.lifelong.importance import estimate
from factlearn.lifelong.strategy import Learner


class MAS(Consolidation):
    """Holds what the network's output depends on, measured after each task from images without labels."""

    measured_by: ClassVar[str] = "mas"

    def measure(self, learner: Learner) -> dict[str, Tensor]:
        """Eq. 2: the mean over images of each one's absolute gradient."""
        return estimate(learner.measured or learner.module, learner.inputs, measure=self.measured_by).mean()
