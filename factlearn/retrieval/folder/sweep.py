"""The rows of highest inner product with queries: swept exactly, or suggested by a search structure."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from factlearn.retrieval.folder.segments import Segment
from factlearn.retrieval.folder.structures import Structure
from factlearn.retrieval.rows import CHUNK, Keys, Swept

Ranked = tuple[NDArray[np.float32], Keys]
"""Inner products and positions [Q, count] for Q queries; a position is -1 where there are no more."""


def chunks(segment: Segment) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The rows of a segment in parts, each with its first position."""
    for start in range(0, len(segment), CHUNK):
        yield start, segment.rows[start : start + CHUNK]


def best_of(
    segment: Segment, queries: NDArray[np.float32], count: int, allowed: NDArray[np.bool_] | None
) -> Iterator[Ranked]:
    """The best rows of one segment for each query; in several parts where only some are allowed."""
    import faiss

    metric = faiss.METRIC_INNER_PRODUCT
    if allowed is None:
        yield faiss.knn(queries, segment.rows, min(count, len(segment)), metric=metric)
        return
    for start, rows in chunks(segment):
        chosen = np.flatnonzero(allowed[start : start + len(rows)])
        if len(chosen):
            scores, places = faiss.knn(queries, rows[chosen], min(count, len(chosen)), metric=metric)
            yield scores, np.where(places < 0, -1, chosen[places] + start)


def candidates(
    structure: Structure, queries: NDArray[np.float32], count: int, covered: int, allowed: NDArray[np.bool_] | None
) -> Ranked:
    """What a structure over the first `covered` rows suggests; the fewer are allowed, the more it is asked for."""
    share = 1.0 if allowed is None else float(allowed.mean())
    wanted = min(covered, int(max(count, structure.candidates) / max(share, 0.01)))
    scores, positions = structure.search(queries, wanted)
    outside = positions < 0
    if allowed is not None:
        outside |= ~allowed[np.maximum(positions, 0)]
    return np.where(outside, -np.inf, scores).astype(np.float32), positions


def merged(parts: Sequence[Ranked], queries: int, count: int | None) -> list[Swept]:
    """One ranking per query, cut to `count`; scores that are not numbers are left out."""
    if not parts:
        return [(np.empty(0, np.float32), np.empty(0, np.int64))] * queries
    scores = np.concatenate([scores for scores, _ in parts], axis=1)
    keys = np.concatenate([keys for _, keys in parts], axis=1)
    rankings = []
    for row_scores, row_keys in zip(scores, keys, strict=True):
        possible = np.flatnonzero((row_scores > -np.inf) & (row_keys >= 0))
        order = possible[np.argsort(-row_scores[possible], kind="stable")][:count]
        rankings.append((row_scores[order], row_keys[order]))
    return rankings
