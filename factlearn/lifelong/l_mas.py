"""l-MAS, the local form of Memory Aware Synapses (Aljundi et al., ECCV 2018, section 4.3).

    omega_ij = 1/N sum_k y_i(x_k) y_j(x_k)                                          (eq. 5 and 7)

Each layer is considered on its own: a weight matters as much as the neurons it connects fire together (Hebb's rule).
No gradient crosses a layer, so one forward pass is enough.
"""

from typing import ClassVar, Literal

from factlearn.lifelong.config import ImportanceConfig
from factlearn.lifelong.mas import MAS
from factlearn.lifelong.registry import method


class LocalMASConfig(ImportanceConfig):
    """Settings of l-MAS."""

    name: Literal["l-mas"] = "l-mas"


@method(
    title="l-MAS",
    summary="protects the parameters that each layer's own output depends on (local Memory Aware Synapses)",
    config=LocalMASConfig,
    importance=True,
)
class LocalMAS(MAS):
    """Protects what each layer's own output depends on."""

    measured_by: ClassVar[str] = "local"
