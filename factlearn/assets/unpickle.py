"""Reading pickles of numpy arrays without running what they say.

A pickle is a program: it may name any callable and have it called. Some published weights are pickles all
the same, so this reader admits exactly the names that numpy's own arrays are made of, and refuses every
other. What stands behind those names is ours: numpy's own functions believe sizes and types that a pickle
states, and a forged one crashes them.
"""

import pickle
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from factlearn.errors import AssetError

_TYPES = frozenset({"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"})


class _Type:
    """Stands for a numpy dtype."""

    def __init__(self, name: str, *_: Any) -> None:
        if name not in _TYPES:
            raise pickle.UnpicklingError(f"it holds values of the type {name!r}")
        self.dtype = np.dtype(f"<{name}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] == ">":
            self.dtype = self.dtype.newbyteorder(">")


class _Array:
    """Stands for a numpy array until its content is known."""

    value: np.ndarray

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, is_fortran, content = state
        if not isinstance(kind, _Type) or not isinstance(content, bytes) or min(shape, default=0) < 0:
            raise pickle.UnpicklingError("it holds an array that is not made of numbers")
        if prod(shape) * kind.dtype.itemsize != len(content):
            raise pickle.UnpicklingError("it holds an array whose size differs from its declared shape")
        self.value = np.frombuffer(content, kind.dtype).reshape(shape, order="F" if is_fortran else "C")


def _scalar(kind: _Type, content: bytes) -> Any:
    return np.frombuffer(content, kind.dtype, 1)[0]


_ADMITTED: dict[tuple[str, str], Any] = {("numpy", "ndarray"): "an argument, never called", ("numpy", "dtype"): _Type}
for _module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    _ADMITTED[_module, "_reconstruct"], _ADMITTED[_module, "scalar"] = _Array, _scalar


class _ArrayUnpickler(pickle._Unpickler):  # type: ignore[name-defined,misc]
    """Python's own, not C's: C's fills as much memory as the largest number under which a pickle remembers a value."""

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
            return _plain(_ArrayUnpickler(stream).load(), {})
    except pickle.UnpicklingError as error:
        raise AssetError(f"{path.name} was refused: {error}; it is not a plain file of arrays.") from error
    except OSError as error:
        raise AssetError(f"{path} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # a damaged pickle fails in as many ways as there are opcodes
        raise AssetError(f"{path.name} is damaged ({type(error).__name__}); fetch it again.") from error


def _plain(value: Any, known: dict[int, Any]) -> Any:
    """The same containers with numpy's arrays in them; one that a pickle names many times is one here too."""
    if isinstance(value, _Array):
        return value.value
    if not isinstance(value, dict | list | tuple):
        return value
    if id(value) not in known:
        if isinstance(value, dict):
            known[id(value)] = {key: _plain(part, known) for key, part in value.items()}
        else:
            known[id(value)] = type(value)(_plain(part, known) for part in value)
    return known[id(value)]
