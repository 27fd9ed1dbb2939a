"""Layers that draw at random, on several processes that each have some rows of a batch.

Every process draws for the whole batch from the same seed and uses its own rows, so that they learn together what one
process learns alone.
"""

from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from factlearn import processes
from factlearn.errors import ModelError

_MASKS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "StochasticDepth")
"""Layers that multiply their input by what they draw; the last is torchvision's."""


class SharedMask(nn.Module):
    """A layer that multiplies its input by a random mask: the rows that this process has of the whole batch's."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, rows: Tensor) -> Tensor:
        """Keep the shape; several rows may belong to one image, as in attention over windows."""
        if not self.training:
            return rows
        whole, own = processes.batch_rows(), processes.rows_of(processes.batch_rows())
        each = len(rows) // (own.stop - own.start)
        mask: Tensor = self.layer(rows.new_ones(whole * each, *rows.shape[1:]))
        return rows * mask[own.start * each : own.stop * each]


def share_random_layers(module: nn.Module) -> None:
    """Have a network's random layers draw for the batches of all processes; alone, nothing changes.

    Raises:
        ModelError: if there is a layer whose result on some rows depends on the others, or is random otherwise.
    """
    if processes.count() == 1:
        return
    module.train()
    for parent in list(module.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer).__name__ in _MASKS and not isinstance(parent, SharedMask):
                setattr(parent, name, SharedMask(layer).train(layer.training))
            elif _needs_the_whole_batch(layer):
                raise ModelError(
                    f"The network's {type(layer).__name__} layers need whole batches, so several processes would "
                    "learn something else than one; use pretrained weights, another network, or one process."
                )


def _needs_the_whole_batch(layer: Any) -> bool:
    if isinstance(layer, BatchNorm):
        return bool(layer.training)
    if isinstance(layer, nn.MultiheadAttention):
        return bool(layer.dropout > 0)
    return isinstance(layer, nn.RReLU) or (isinstance(layer, _DropoutNd) and type(layer).__name__ not in _MASKS)
