"""Memory Aware Synapses, global form (Aljundi et al., ECCV 2018, section 4.1).

    omega = 1/N sum_k |g(x_k)|,  g(x_k) = d ||F(x_k)||^2 / d theta                  (eq. 2)
    L = L_n + lambda sum omega (theta - theta_star)^2                               (eq. 3)

The importance needs no labels, so it can be measured on any images, those seen in use as well as those of the training.
"""

from typing import Any, ClassVar, Literal, Self

from factlearn.lifelong.config import ImportanceConfig, Strength
from factlearn.lifelong.consolidation import Consolidation
from factlearn.lifelong.measures import Output
from factlearn.lifelong.registry import method


class MASConfig(ImportanceConfig):
    """Settings of MAS."""

    name: Literal["mas"] = "mas"
    lambda_: Strength = 5.0


@method(
    title="MAS",
    summary="protects the parameters that the network's output depends on (Memory Aware Synapses)",
    config=MASConfig,
    importance=True,
)
class MAS(Consolidation):
    """Protects what the network's output depends on, measured after each task from images without labels."""

    measured_by: ClassVar[str] = "mas"

    @classmethod
    def of(cls, config: Any) -> Self:
        """MAS with the settings of a `MASConfig`, or of another of its forms."""
        return cls(config.lambda_, config.penalty, config.floor, *config.mixture)

    def use_measure(self, output: Output) -> str:
        """Eq. 2: the mean over images of each one's absolute gradient."""
        return self.measured_by
