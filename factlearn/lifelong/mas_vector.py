"""MAS with a vector output (Aljundi et al., ECCV 2018, section 4.1 before the squared norm is introduced).

    omega = 1/N sum_k sum_o |d F_o(x_k) / d theta|                                  (eq. 2 for every output)

It takes one backward pass per output; the paper finds no difference in what is forgotten.
"""

from typing import ClassVar, Literal

from factlearn.lifelong.config import ImportanceConfig
from factlearn.lifelong.mas import MAS
from factlearn.lifelong.registry import method


class VectorMASConfig(ImportanceConfig):
    """Settings of MAS with a vector output."""

    name: Literal["mas-vector"] = "mas-vector"


@method(
    title="MAS-vector",
    summary="protects the parameters that any single output depends on (Memory Aware Synapses, per output)",
    config=VectorMASConfig,
    importance=True,
)
class VectorMAS(MAS):
    """Protects what every single output depends on."""

    measured_by: ClassVar[str] = "mas-vector"
