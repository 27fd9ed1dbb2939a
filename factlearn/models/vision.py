"""The one door through which the package imports torchvision.

A CUDA build of torchvision beside a CPU build of torch cannot load its C++ operators, and then `import torchvision`
itself fails with "operator torchvision::nms does not exist". None of those operators is needed here, so when the plain
import fails their schemas are declared first and the import is tried again.
"""

import importlib
import sys
from types import ModuleType

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_library: torch.library.Library | None = None


def _declare_missing_operators() -> None:
    global _library  # noqa: PLW0603 - the declarations live as long as this object
    if _library is None:
        _library = torch.library.Library("torchvision", "DEF")
        for schema in _SCHEMAS:
            _library.define(schema)


def import_torchvision() -> ModuleType:
    """Import torchvision under any mix of torch and torchvision builds."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    _declare_missing_operators()
    return importlib.import_module("torchvision")


torchvision = import_torchvision()
