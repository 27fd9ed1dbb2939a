"""Average precision, equal to trec_eval to the last bit.

trec_eval compares scores as float32, highest first, and breaks ties by document id, last first. Here an image
becomes one integer key: the score's float32 bits in descending order, then the id's place, then whether the
image is relevant. Sorting the keys ranks the images, ties included, and carries the relevance along.

Only the ranks of relevant images matter, so few keys need sorting: the scores are counted into bins first,
and of a bin without a relevant image the count is enough.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from factlearn.errors import FactlearnError

Ids = Sequence[str] | NDArray[np.str_]
_SIGN = np.uint32(1 << 31)
_MOST_BINS = 1 << 14


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
    for query in range(len(score_matrix)):
        singles = _as_trec_eval_compares(score_matrix[query])
        if evaluated[query]:
            ranks = _ranks_of_relevant(singles, relevance[query], places)
            # cumsum adds one term after the other, as trec_eval does; sum rounds differently.
            per_query[query] = np.cumsum(np.arange(1, len(ranks) + 1) / ranks)[-1] / len(ranks)
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
        raise FactlearnError(f"The image id {str(names[order][repeated[0]])!r} appears twice; ids must differ.")
    places = np.empty(count, dtype=np.uint64)
    places[order[::-1]] = np.arange(count, dtype=np.uint64)
    return places << np.uint64(1)


def _as_trec_eval_compares(scores: NDArray) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        singles: NDArray[np.float32] = scores.astype(np.float32) + np.float32(0)  # turns -0.0 into 0.0
    if np.isnan(singles).any():
        raise FactlearnError("A score is NaN, so the images cannot be ranked; check the vectors for NaN.")
    return singles


def _ranks_of_relevant(
    scores: NDArray[np.float32], relevant: NDArray[np.bool_], places: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """The ranks, from 1 and ascending, of the relevant images."""
    bins, count = _descending_bins(scores)
    relevant_bins = np.sort(bins[relevant])
    looked_into = np.zeros(count, dtype=bool)
    looked_into[relevant_bins] = True
    images = np.flatnonzero(looked_into[bins])
    score_bits = _descending_bits(scores[images]).astype(np.uint64)
    keys = (score_bits << np.uint64(32)) | places[images] | relevant[images]
    keys.sort()
    passed_over = np.cumsum(np.where(looked_into, 0, np.bincount(bins, minlength=count)))
    ranks: NDArray[np.int64] = np.flatnonzero(keys & np.uint64(1)) + 1 + passed_over[relevant_bins]
    return ranks


def _descending_bins(scores: NDArray[np.float32]) -> tuple[NDArray[np.int32], int]:
    """A bin for each score, never higher for a better score, and how many bins there are."""
    count = min(len(scores), _MOST_BINS)
    best = scores.max()
    with np.errstate(all="ignore"):
        scale = np.float32(count - 1) / (best - scores.min())
    if not 0 < scale < np.inf:  # all scores equal, or too far apart for the difference of two
        return np.zeros(len(scores), dtype=np.int32), 1
    # Subtraction, product and truncation are monotone even as they round, so no bin is out of order.
    below_best = best - scores
    below_best *= scale
    return below_best.astype(np.int32), count


def _descending_bits(scores: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Integers that sort ascending as the scores sort descending."""
    bits = scores.view(np.int32)
    negative = (bits >> 31).view(np.uint32)  # all ones where the sign bit is set, else 0
    return ~(bits.view(np.uint32) ^ (negative | _SIGN))
