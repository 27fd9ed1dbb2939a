"""Average precision, equal to trec_eval to the last bit.

trec_eval compares scores as float32, highest first, and breaks ties by document id, last first. Here each
image of a ranking becomes one integer key: the score's float32 bits in descending order, then the id's
place, then whether the image is relevant. Sorting the keys ranks the images, ties included, and carries the
relevance along.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from factlearn.errors import FactlearnError

Ids = Sequence[str] | NDArray[np.str_]
_SIGN = np.uint32(1 << 31)


@dataclass(frozen=True)
class QueryPrecisions:
    """The average precision of each query, in the queries' order.

    Attributes:
        per_query: average precision; 0 where `evaluated` is False.
        evaluated: which queries have a relevant image, and so count in the mean.
    """

    per_query: NDArray[np.float64]
    evaluated: NDArray[np.bool_]

    @property
    def mean(self) -> float | None:
        """Mean average precision over the evaluated queries; None if there is none."""
        values = self.per_query[self.evaluated]
        return math.fsum(values) / len(values) if len(values) else None


def average_precision(scores: ArrayLike, relevant: ArrayLike, ids: Ids | None = None) -> float:
    """Average precision of one ranking, as trec_eval computes it.

    Args:
        scores: one score an image, higher is better; compared as float32.
        relevant: which images answer the query.
        ids: the images' names, which order equal scores (last first); their positions if not given.

    Raises:
        FactlearnError: if a score is NaN, no image is relevant, or the lengths differ.

    Example:
        >>> average_precision([0.9, 0.8, 0.1], [True, False, True])
        0.8333333333333333
    """
    result = mean_average_precision(np.asarray(scores)[None], np.asarray(relevant)[None], ids)
    if not result.evaluated[0]:
        raise FactlearnError("Average precision needs at least one relevant image; this ranking has none.")
    return float(result.per_query[0])


def mean_average_precision(scores: ArrayLike, relevant: ArrayLike, ids: Ids | None = None) -> QueryPrecisions:
    """Average precision of each of Q queries over the same N images.

    Args:
        scores: [Q, N], higher is better; compared as float32.
        relevant: bool [Q, N]. Every relevant image counts in the divisor.
        ids: N distinct names, which order equal scores (last first); the positions if not given.

    Raises:
        FactlearnError: if a score is NaN, the shapes differ, or an id appears twice.
    """
    score_matrix, relevance = np.asarray(scores), np.asarray(relevant, dtype=bool)
    if score_matrix.ndim != 2 or score_matrix.shape != relevance.shape:
        raise FactlearnError(
            f"Scores {score_matrix.shape} and relevance {relevance.shape} must both be queries x images."
        )
    places = _tie_places(score_matrix.shape[1], ids)
    per_query = np.zeros(len(score_matrix))
    evaluated = np.any(relevance, axis=1).reshape(-1)
    # One query at a time: its keys stay in the processor's cache while they are sorted.
    for query in range(len(score_matrix)):
        keys = _descending_bits(score_matrix[query])  # also where a NaN is found, so before the test below
        if evaluated[query]:
            per_query[query] = _average_precision_of_keys((keys << 32) | places | relevance[query])
    return QueryPrecisions(per_query, evaluated)


def _tie_places(count: int, ids: Ids | None) -> NDArray[np.uint64]:
    """Each image's place among equal scores, shifted to leave the lowest bit free."""
    if ids is None:
        return np.arange(count, dtype=np.uint64)[::-1] << np.uint64(1)
    names = np.asarray(ids, dtype=np.str_)  # compared by code point, which is the order of UTF-8 bytes too
    if names.shape != (count,):
        raise FactlearnError(f"There are {len(names)} ids for {count} scored images; give one id an image.")
    order = np.argsort(names, kind="stable")
    repeated = np.flatnonzero(names[order][1:] == names[order][:-1])
    if len(repeated):
        raise FactlearnError(
            f"The image id {str(names[order][repeated[0]])!r} appears twice; ids must differ."
        )
    places = np.empty(count, dtype=np.uint64)
    places[order[::-1]] = np.arange(count, dtype=np.uint64)
    return places << np.uint64(1)


def _descending_bits(scores: NDArray) -> NDArray[np.uint64]:
    """Integers that sort ascending as the float32 values of the scores sort descending."""
    with np.errstate(over="ignore"):
        singles = scores.astype(np.float32) + np.float32(0)  # the sum turns -0.0 into 0.0
    if np.isnan(singles).any():
        raise FactlearnError("A score is NaN, so the images cannot be ranked; check the vectors for NaN.")
    bits = singles.view(np.uint32)
    return np.where(bits & _SIGN, bits, ~(bits | _SIGN)).astype(np.uint64)


def _average_precision_of_keys(keys: NDArray[np.uint64]) -> float:
    keys.sort()
    ranks = np.flatnonzero(keys & np.uint64(1)) + 1
    found = np.arange(1, len(ranks) + 1)
    # cumsum adds one term after the other, as trec_eval does; sum would add in pairs and round differently.
    return float(np.cumsum(found / ranks)[-1] / len(ranks))
