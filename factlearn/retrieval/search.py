"""Exact nearest images for every wildcard pattern and weighting, by one inner-product sweep.

An image is one row `[S | P | O | nS, nP, nO]`: its three vectors and their squared norms. A query is
`[2 qS wS | 2 qP wP | 2 qO wO | -wS, -wP, -wO]` with w = 0 for a unit it leaves open, so that their inner
product is the score plus a constant of the query:

    - sum_u w_u ||v_u - q_u||^2  =  query . row  -  sum_u w_u ||q_u||^2

The sweep is in float32 and rounds. A bound on that rounding says which images could still be among the k best; those
are scored again in float64 by the plain definition. The answer is therefore exactly that of brute force. A store that
does not sweep all its rows (`exact` is False) has its candidates scored again in the same way, without that guarantee.

Of several facts at once an image's worst score counts: it must show them all.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError, FactlearnError
from factlearn.evaluation.scoring import check_parts, unit_scores
from factlearn.retrieval.where import Filter

UNITS = 3
CHUNK = 1 << 16
_MARGIN = 32
_ROUNDING = 2.0**-24
_UNDERFLOW = 2.0**-125
_SMALLEST = 2.0**-149

Keys = NDArray[Any]


class Store(Protocol):
    """Where rows live; a key is the store's own name of one."""

    @property
    def exact(self) -> bool:
        """Whether `sweep` looks at every row."""

    @property
    def largest(self) -> NDArray[np.float64]:
        """The largest squared norm of each unit."""

    def sweep(
        self, queries: NDArray[np.float32], count: int, where: Filter | None
    ) -> Sequence[tuple[NDArray[np.float32], Keys]]:
        """For each query the `count` rows of highest inner product, best first; fewer only if there are no more."""

    def above(self, query: NDArray[np.float32], least: float, where: Filter | None) -> Keys:
        """The rows whose float32 inner product is at least `least`."""

    def take(self, keys: Keys) -> NDArray[np.float32]:
        """Rows by key."""

    def names(self, keys: Keys) -> Sequence[str]:
        """The images' ids by key."""


@dataclass(frozen=True)
class Nearest:
    """The best images of one query, best first: their keys, scores, and scores by unit [k, 3] (NaN where open)."""

    keys: Keys
    scores: NDArray[np.float64]
    by_unit: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.keys)


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


@dataclass(frozen=True)
class Question:
    """One target with its weights, as the sweep takes it."""

    target: NDArray[np.float32]
    weights: NDArray[np.float64]

    @property
    def row(self) -> NDArray[np.float32]:
        """The query of the inner-product form."""
        doubled = 2 * self.target * self.weights[:, None]
        return np.concatenate([doubled.ravel(), -self.weights]).astype(np.float32)

    @property
    def constant(self) -> float:
        """What the inner product of query and row exceeds the score by."""
        return float((np.square(self.target, dtype=np.float64).sum(axis=-1) * self.weights).sum())

    def rounding_bound(self, largest: NDArray[np.float64]) -> float:
        """How far a float32 inner product with any row can be from the true one.

        Summing d products in any order errs by at most d u / (1 - d u) times the sum of their magnitudes
        (u = 2^-24), which Cauchy-Schwarz bounds by norms, given the largest of the rows' squared norms; a few
        more u cover the rounding of the stored norms, the weights and the float64 arithmetic. Underflow adds a
        constant for each product, and for each factor its smallest number times the other factor.
        """
        terms = self.target.size + UNITS + 6
        lengths = np.sqrt(np.square(self.target, dtype=np.float64).sum(axis=-1))
        longest = float(lengths.max())
        magnitude = float(((2 * lengths * np.sqrt(largest) + largest) * self.weights).sum())
        if magnitude > float(np.finfo(np.float32).max) / 2 or terms * _ROUNDING >= 0.5:
            return float("inf")
        lost = _UNDERFLOW + _SMALLEST * (max(1.0, float(largest.max())) + float(self.weights.sum()) * (1 + 2 * longest))
        return terms * _ROUNDING / (1 - terms * _ROUNDING) * magnitude + terms * lost

    def score(self, rows: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The plain definition: the score of each row, and by unit."""
        parts = [unpack(rows[start : start + CHUNK]) for start in range(0, max(len(rows), 1), CHUNK)]
        by_unit = np.concatenate([unit_scores(part, self.target) for part in parts])
        return (by_unit * self.weights).sum(axis=1), by_unit


def nearest(store: Store, questions: Sequence[Question], k: int, where: Filter | None = None) -> list[Nearest]:
    """The k best images for each question, or all if there are fewer."""
    count = k + max(k, _MARGIN)
    swept = store.sweep(np.stack([question.row for question in questions]), count, where)
    found = []
    for question, (scores, keys) in zip(questions, swept, strict=True):
        best = _best(store, [question], keys, k)
        if store.exact and not _is_settled(store, question, best, scores, count):
            best = _best(store, [question], _candidates(store, [question], best, where), k)
        found.append(best)
    return found


def nearest_to_all(store: Store, questions: Sequence[Question], k: int, where: Filter | None = None) -> Nearest:
    """The k images whose worst score over the questions is best."""
    count = k + max(k, _MARGIN)
    swept = store.sweep(np.stack([question.row for question in questions]), count, where)
    best = _best(store, questions, np.unique(np.concatenate([keys for _, keys in swept])), k)
    if not store.exact:
        return best
    return _best(store, questions, _candidates(store, questions, best, where), k)


def _is_settled(store: Store, question: Question, best: Nearest, swept: NDArray[np.float32], count: int) -> bool:
    """Whether no row that the sweep left out can belong to the best."""
    least = _least(store, question, best)
    return bool(np.isfinite(least) and (len(swept) < count or swept[-1] < least))


def _least(store: Store, question: Question, best: Nearest) -> float:
    """The k-th best of all is at least the k-th best found, and so is swept at no less than this."""
    if not len(best):
        return -math.inf
    return float(best.scores[-1]) + question.constant - question.rounding_bound(store.largest)


def _candidates(store: Store, questions: Sequence[Question], best: Nearest, where: Filter | None) -> Keys:
    """Every row that can still be among the best: no question scores it lower than the last of those found."""
    kept: Keys | None = None
    for question in questions:
        found = store.above(question.row, _least(store, question, best), where)
        kept = found if kept is None else np.intersect1d(kept, found)
    assert kept is not None
    return kept


def _best(store: Store, questions: Sequence[Question], keys: Keys, k: int) -> Nearest:
    """The k best of some rows by the exact score, then by name."""
    if not len(keys):
        return Nearest(keys, np.empty(0), np.empty((0, UNITS)))
    rows = store.take(keys)
    scored = [question.score(rows) for question in questions]
    totals = np.stack([scores for scores, _ in scored])
    worst = totals.argmin(axis=0)
    each = np.arange(len(keys))
    scores = totals[worst, each]
    named = np.stack([question.weights > 0 for question in questions])
    by_unit = np.where(named[worst], np.stack([by_unit for _, by_unit in scored])[worst, each], np.nan)
    if k < len(scores):
        kept = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
        keys, scores, by_unit = keys[kept], scores[kept], by_unit[kept]
    names = store.names(keys)
    order = sorted(range(len(keys)), key=lambda place: (-scores[place], names[place]))[:k]
    return Nearest(keys[order], scores[order], by_unit[order])
