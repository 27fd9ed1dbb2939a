"""Exact nearest images for every wildcard pattern and weighting, by one inner-product sweep.

An image is one row `[S | P | O | nS, nP, nO]`: its three vectors and their squared norms. A query is
`[2 qS wS | 2 qP wP | 2 qO wO | -wS, -wP, -wO]` with w = 0 for a unit it leaves open, so that their inner
product is the score plus a constant of the query:

    - sum_u w_u ||v_u - q_u||^2  =  query . row  -  sum_u w_u ||q_u||^2

The sweep is in float32 and rounds. A bound on the rounding tells which images could still be among the k best; those
are scored again in float64 by the plain definition, so the answer is exactly that of brute force. If a store does not
sweep all its rows (`exact` is False), its candidates are scored in the same way, without that guarantee.

When several facts are asked for together, an image's worst score counts: it must show them all.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from factlearn.evaluation.scoring import unit_scores
from factlearn.retrieval.rows import CHUNK, UNITS, Keys, unpack
from factlearn.retrieval.where import Filter

if TYPE_CHECKING:
    from factlearn.retrieval.stores import Store

_MARGIN = 32
_ROUNDING = 2.0**-24
_UNDERFLOW = 2.0**-125
_SMALLEST = 2.0**-149


@dataclass(frozen=True)
class Nearest:
    """The best images for one query, best first: their keys, scores, and scores by unit [k, 3] (NaN where open)."""

    keys: Keys
    scores: NDArray[np.float64]
    by_unit: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True)
class Question:
    """One target with its weights, as input to the sweep."""

    target: NDArray[np.float32]
    weights: NDArray[np.float64]

    @property
    def row(self) -> NDArray[np.float32]:
        """The query of the inner-product form."""
        doubled = 2 * self.target * self.weights[:, None]
        return np.concatenate([doubled.ravel(), -self.weights]).astype(np.float32)

    @property
    def constant(self) -> float:
        """By how much the inner product of query and row exceeds the score."""
        return float((np.square(self.target, dtype=np.float64).sum(axis=-1) * self.weights).sum())

    def rounding_bound(self, largest: NDArray[np.float64]) -> float:
        """How far a float32 inner product with any row can be from the true one.

        Summing d products in any order has an error of at most d u / (1 - d u) times the sum of their magnitudes
        (u = 2^-24), which Cauchy-Schwarz bounds by norms, given the rows' largest squared norms; a few more u cover
        the rounding of the stored norms, the weights and the float64 arithmetic. Underflow adds a constant per
        product, and for each factor the smallest float32 times the other factor.
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


def nearest(store: "Store", questions: Sequence[Question], k: int, where: Filter | None = None) -> list[Nearest]:
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


def nearest_to_all(store: "Store", questions: Sequence[Question], k: int, where: Filter | None = None) -> Nearest:
    """The k images whose worst score over the questions is best."""
    count = k + max(k, _MARGIN)
    swept = store.sweep(np.stack([question.row for question in questions]), count, where)
    best = _best(store, questions, np.unique(np.concatenate([keys for _, keys in swept])), k)
    if not store.exact:
        return best
    return _best(store, questions, _candidates(store, questions, best, where), k)


def _is_settled(store: "Store", question: Question, best: Nearest, swept: NDArray[np.float32], count: int) -> bool:
    """Whether no row that the sweep left out can be among the best."""
    least = _least(store, question, best)
    return bool(np.isfinite(least) and (len(swept) < count or swept[-1] < least))


def _least(store: "Store", question: Question, best: Nearest) -> float:
    """A lower bound on the swept product of every image that can be among the best, given those found so far."""
    if not len(best):
        return -math.inf
    return float(best.scores[-1]) + question.constant - question.rounding_bound(store.largest)


def _candidates(store: "Store", questions: Sequence[Question], best: Nearest, where: Filter | None) -> Keys:
    """Every row that can still be among the best: on no question does it score lower than the last one found."""
    kept: Keys | None = None
    for question in questions:
        found = store.above(question.row, _least(store, question, best), where)
        kept = found if kept is None else np.intersect1d(kept, found)
    assert kept is not None
    return kept


def _best(store: "Store", questions: Sequence[Question], keys: Keys, k: int) -> Nearest:
    """The k best of some rows by exact score, ties ordered by name."""
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
