"""Exact nearest images for every wildcard pattern, by one inner-product sweep.

An image is one row `[S | P | O | nS, nP, nO]`: its three vectors and their squared norms. A query is
`[2 qS mS | 2 qP mP | 2 qO mO | -mS, -mP, -mO]` with m = 1 for the units it names, so that their inner
product is the masked score plus a constant of the query:

    - sum_u m_u ||v_u - q_u||^2  =  query . row  -  sum_u m_u ||q_u||^2

The sweep (FAISS) is in float32 and rounds. A bound on that rounding says which images could still be among
the k best; those are scored again in float64 by the plain definition. The answer is therefore exactly that
of brute force.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError, FactlearnError
from factlearn.scoring import check_parts, unit_scores

NameOf = Callable[[NDArray[np.int64]], Sequence[str]]
UNITS = 3
_CHUNK = 1 << 16
_MARGIN = 32
_ROUNDING = 2.0**-24
_UNDERFLOW = 2.0**-125


@dataclass(frozen=True)
class Nearest:
    """The best images of one query, best first: their rows' numbers and their scores by unit [k, 3]."""

    positions: NDArray[np.int64]
    by_unit: NDArray[np.float64]


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
    return rows[:, :-UNITS].reshape(len(rows), UNITS, -1)


@dataclass(frozen=True)
class _Query:
    target: NDArray[np.float32]
    weights: NDArray[np.float32]
    row: NDArray[np.float32]

    @property
    def constant(self) -> float:
        """What the inner product of query and row exceeds the masked score by."""
        return float((np.square(self.target, dtype=np.float64).sum(axis=-1) * self.weights).sum())

    def rounding_bound(self, largest: NDArray[np.float64]) -> float:
        """How far a float32 inner product with any row can be from the true one.

        Summing d products in any order errs by at most d u / (1 - d u) times the sum of their magnitudes
        (u = 2^-24), which Cauchy-Schwarz bounds by norms, given the largest of the rows' squared norms; two
        more u cover the stored norms' own rounding and the float64 arithmetic. Underflow adds a constant.
        """
        terms = len(self.row) + 2
        lengths = np.sqrt(np.square(self.target, dtype=np.float64).sum(axis=-1))
        magnitude = float(((2 * lengths * np.sqrt(largest) + largest) * self.weights).sum())
        if magnitude > np.finfo(np.float32).max / 2 or terms * _ROUNDING >= 0.5:
            return float("inf")
        return terms * _ROUNDING / (1 - terms * _ROUNDING) * magnitude + terms * _UNDERFLOW


class RowSearcher:
    """Searches rows, which may be memory-mapped: they are swept in place and never copied whole.

    Args:
        rows: float32 [N, 3D+3], as `pack` gives them.
        name_of: gives the names of rows by number; equal scores are ordered by name.
    """

    def __init__(self, rows: NDArray[np.float32], name_of: NameOf) -> None:
        self._rows = rows
        self._name_of = name_of
        starts = range(0, len(rows), _CHUNK)
        chunks = [rows[start : start + _CHUNK, -UNITS:].max(axis=0) for start in starts]
        self._largest = np.max(chunks, axis=0).astype(np.float64)

    def nearest(self, targets: NDArray, mask: NDArray, k: int) -> list[Nearest]:
        """The k best images for each of the targets [Q, 3, D] under its mask [Q, 3], or all if fewer."""
        import faiss

        targets = np.asarray(targets, dtype=np.float32)
        weights = np.asarray(mask, dtype=np.float32)
        doubled = (2 * targets * weights[..., None]).reshape(len(targets), -1)
        queries = np.concatenate([doubled, -weights], axis=1)
        count = min(len(self._rows), k + max(k, _MARGIN))
        swept, positions = faiss.knn(queries, self._rows, count, metric=faiss.METRIC_INNER_PRODUCT)
        asked = map(_Query, targets, weights, queries)
        return [
            self._settle(query, rows, last, k) for query, rows, last in zip(asked, positions, swept[:, -1], strict=True)
        ]

    def _settle(self, query: _Query, positions: NDArray[np.int64], last: float, k: int) -> Nearest:
        """The exact k best, given the rows of a sweep that left out none it scored above `last`."""
        bound = query.rounding_bound(self._largest)
        if not np.isfinite(bound):
            return self._best(query, np.arange(len(self._rows)), k)
        found = self._best(query, positions, k)
        if len(positions) == len(self._rows):
            return found
        # The k-th best of all is at least the k-th best found, and so is swept at no less than this.
        least = float((found.by_unit[-1] * query.weights).sum()) + query.constant - bound
        if last < least:
            return found
        return self._best(query, self._sweep(query, least), k)

    def _sweep(self, query: _Query, least: float) -> NDArray[np.int64]:
        """The rows whose float32 score is at least `least`."""
        found = [
            np.flatnonzero(self._rows[start : start + _CHUNK] @ query.row >= np.float64(least)) + start
            for start in range(0, len(self._rows), _CHUNK)
        ]
        return np.concatenate(found)

    def _best(self, query: _Query, positions: NDArray[np.int64], k: int) -> Nearest:
        """The k best of some rows by the exact score, then by name."""
        parts = [positions[start : start + _CHUNK] for start in range(0, len(positions), _CHUNK)]
        by_unit = np.concatenate([unit_scores(unpack(self._rows[part]), query.target) for part in parts])
        scores = (by_unit * query.weights).sum(axis=1)
        if k < len(scores):
            kept = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
            positions, by_unit, scores = positions[kept], by_unit[kept], scores[kept]
        names = self._name_of(positions)
        order = sorted(range(len(positions)), key=lambda place: (-scores[place], names[place]))[:k]
        return Nearest(positions[order], by_unit[order])
