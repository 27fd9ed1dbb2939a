"""Rows: image vectors in the form that is stored and searched (see `search.py`), and their checksums.

An image is one row `[S | P | O | nS, nP, nO]`: its three vectors and their squared norms, in float32.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError, FactlearnError
from factlearn.evaluation.scoring import check_parts

UNITS = 3
CHUNK = 1 << 16
_SUMMED_AT_ONCE = 1 << 13

Rows = NDArray[np.float32]
"""Image vectors as they are stored, [N, 3D+3]."""
Keys = NDArray[Any]
"""A store's own names for its rows, such as positions or ids."""
Swept = tuple[NDArray[np.float32], Keys]
"""Inner products and keys of the best rows for one query, best first."""


def width_of(dimension: int) -> int:
    """The length of a row whose units have vectors of this dimension."""
    return UNITS * (dimension + 1)


def pack(vectors: NDArray) -> NDArray[np.float32]:
    """Rows [N, 3D+3] of image vectors [N, 3, D]: the vectors, then each unit's squared norm.

    Raises:
        FactIndexError: if a number is NaN or infinite, or a norm is too large for float32.
    """
    try:
        check_parts("image vectors", vectors)
    except FactlearnError as error:
        raise FactIndexError(str(error)) from error
    vectors = np.asarray(vectors, dtype=np.float32)
    with np.errstate(over="ignore"):
        norms = np.square(vectors, dtype=np.float64).sum(axis=-1).astype(np.float32)
    if not np.isfinite(norms).all():
        row = int(np.flatnonzero(~np.isfinite(norms).all(axis=1))[0])
        raise FactIndexError(f"The vector of image {row} is too large to index; the model may have diverged.")
    return np.concatenate([vectors.reshape(len(vectors), -1), norms], axis=1)


def unpack(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The image vectors [N, 3, D] inside rows, without copying."""
    return rows[:, :-UNITS].reshape(len(rows), UNITS, rows.shape[1] // UNITS - 1)


def row_sums(rows: NDArray[np.float32]) -> NDArray[np.uint64]:
    """One checksum per row: its 32-bit words, each times an odd number of its own, added modulo 2^64.

    A single changed bit always changes it: an odd number times a power of two below 2^64 is never 0 modulo 2^64.
    """
    factors = _odd_numbers(rows.shape[1])
    words = np.ascontiguousarray(rows).view(np.uint32)
    starts = range(0, len(words), _SUMMED_AT_ONCE)
    sums = [(words[start : start + _SUMMED_AT_ONCE] * factors).sum(axis=1) for start in starts]
    return np.concatenate(sums) if sums else np.empty(0, np.uint64)


@cache
def _odd_numbers(count: int) -> NDArray[np.uint64]:
    return np.random.default_rng(0).integers(1 << 63, size=count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
