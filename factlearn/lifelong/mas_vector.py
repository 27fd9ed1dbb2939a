"""MAS with a vector output (Aljundi et al., ECCV 2018, section 4.1 before the squared norm is introduced).

    omega = 1/N sum_k sum_o |d F_o(x_k) / d theta|                                  (eq. 2 for every output)

As many backward passes as there are outputs; the paper finds no difference in what is forgotten.
"""

from typing import ClassVar

from factlearn.lifelong.mas import MAS


class VectorMAS(MAS):
    """Holds what every single output depends on."""

    measured_by: ClassVar[str] = "mas-vector"
