"""Reading pickles of numpy arrays without running what they say.

A pickle is a program: it may name any callable and have it called. Some published weights are pickles all
the same, so this reader admits exactly the callables that numpy's own arrays are made of, and refuses every
other name.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from factlearn.errors import AssetError

try:
    from numpy._core import multiarray
except ImportError:  # numpy 1.x
    from numpy.core import multiarray  # type: ignore[no-redef]

_ADMITTED: dict[tuple[str, str], Any] = {("numpy", "ndarray"): np.ndarray, ("numpy", "dtype"): np.dtype}
for _module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    for _name in ("_reconstruct", "scalar"):
        _ADMITTED[_module, _name] = getattr(multiarray, _name)


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no array needs") from None

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside itself")


def load_arrays(path: Path) -> Any:
    """Read a pickle that holds nothing but numpy arrays, numbers, text and plain containers of them.

    Raises:
        AssetError: if the file names anything else, or is damaged. Nothing it names has then been called.
    """
    try:
        with open(path, "rb") as stream:
            return _ArrayUnpickler(stream).load()
    except pickle.UnpicklingError as error:
        raise AssetError(f"{path.name} was refused: {error}; it is not a plain file of arrays.") from error
    except OSError as error:
        raise AssetError(f"{path} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # a damaged pickle fails in as many ways as there are opcodes
        raise AssetError(f"{path.name} is damaged ({type(error).__name__}); fetch it again.") from error
