"""l-MAS, the local form of Memory Aware Synapses (Aljundi et al., ECCV 2018, section 4.3).

    omega_ij = 1/N sum_k y_i(x_k) y_j(x_k)                                          (eq. 5 and 7)

Each layer is looked at by itself: a weight matters as much as the neurons it connects fire together, Hebb's
rule. No gradient crosses a layer, so one forward pass is enough.
"""

from typing import ClassVar

from factlearn.lifelong.mas import MAS


class LocalMAS(MAS):
    """Holds what each layer's own output depends on."""

    measured_by: ClassVar[str] = "local"
