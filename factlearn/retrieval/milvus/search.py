"""Finding the rows of highest inner product in a Milvus collection, however many are asked for.

One answer from Milvus has a limit; beyond it, ids are divided into ranges that are searched one by one.

A small answer brings its rows along, which are asked for next: one call to the server instead of three.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factlearn.retrieval.milvus.client import MOST, Connection
from factlearn.retrieval.milvus.filter import between
from factlearn.retrieval.milvus.rows import ALL, as_keys, read
from factlearn.retrieval.rows import Keys, Swept

FEW = 512  # rows tried first where it is unknown how many are needed
_QUERIES = 64  # in one request
_BROUGHT = 512  # rows that an answer brings along at most
_FRESH = 1.0  # seconds for which they are used


@dataclass(frozen=True)
class _Range:
    """The best rows with `low` <= id < `high`; those left out score at most `floor`."""

    low: str | None
    high: str | None
    scores: NDArray[np.float32]
    ids: Keys
    floor: float

    def halves(self) -> list[tuple[str | None, str | None]]:
        """Two ranges with half of the found ids each."""
        middle = sorted(self.ids)[len(self.ids) // 2]
        return [(self.low, middle), (middle, self.high)]


class _Brought(threading.local):
    """The rows that this thread's last answer brought along."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.at = -math.inf


class Search:
    """The inner-product search of one collection; expressions restrict it, and their answers are merged."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._brought = _Brought()

    def rows(self, ids: Keys, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Some fields of images, in the order of the ids; those that the last answer brought along are not read."""
        known = self._brought.rows if time.monotonic() - self._brought.at < _FRESH else {}
        if all(name in known for name in ids):
            return (known[name] for name in ids)
        return read(self.connection, ids, columns)

    def sweep(self, queries: NDArray[np.float32], count: int, expressions: Sequence[str]) -> list[Swept]:
        """For each query the rows of highest inner product, best first."""
        answers: list[list[Swept]] = [[] for _ in queries]
        self._brought.rows, self._brought.at = {}, time.monotonic()
        for expression in expressions:
            if count <= MOST:
                for start in range(0, len(queries), _QUERIES):
                    found = self._search(queries[start : start + _QUERIES], count, expression)
                    for place, answer in enumerate(found, start):
                        answers[place].append(answer)
            else:
                for place, query in enumerate(queries):
                    answers[place].append(self._search_deep(query, expression, lambda parts: _nth(parts, count)))
        return [_merged(parts, count) for parts in answers]

    def above(self, query: NDArray[np.float32], least: float, expressions: Sequence[str]) -> Keys:
        """The rows whose float32 inner product is at least `least`."""
        found = []
        for expression in expressions:
            ((scores, ids),) = self._search(query[None], FEW, expression)
            if len(ids) == FEW and float(scores[-1]) >= least:
                scores, ids = self._search_deep(query, expression, lambda _: math.nextafter(least, -math.inf))
            found.append(ids[scores >= np.float64(least)])
        return np.concatenate([as_keys(()), *found])

    def _search_deep(
        self, query: NDArray[np.float32], expression: str, bound: Callable[[list[_Range]], float]
    ) -> Swept:
        """All rows that score above a bound, which may depend on what was found so far."""
        parts = [self._search_range(query, expression, None, None)]
        while True:
            level = bound(parts)
            unfinished = [part for part in parts if part.floor > level]
            if not unfinished:
                return _merged([(part.scores, part.ids) for part in parts], None)
            parts = [part for part in parts if part.floor <= level]
            for part in unfinished:
                parts += [self._search_range(query, expression, low, high) for low, high in part.halves()]

    def _search_range(self, query: NDArray[np.float32], expression: str, low: str | None, high: str | None) -> _Range:
        ((scores, ids),) = self._search(query[None], MOST, between(expression, low, high))
        return _Range(low, high, scores, ids, float(scores[-1]) if len(ids) == MOST else -math.inf)

    def _search(self, queries: NDArray[np.float32], limit: int, expression: str) -> list[Swept]:
        brings = len(queries) * limit <= _BROUGHT
        found = self.connection.call(
            "search",
            self.connection.address.collection,
            data=list(queries),
            anns_field="row",
            filter=expression,
            limit=limit,
            output_fields=list(ALL) if brings else ["id"],
            search_params={"metric_type": "IP"},
            consistency_level="Session",
        )
        if brings:
            self._brought.rows |= {hit["id"]: hit["entity"] for hits in found for hit in hits}
        return [
            (np.asarray([hit["distance"] for hit in hits], np.float32), as_keys([hit["id"] for hit in hits]))
            for hits in found
        ]


def _nth(parts: Sequence[_Range], count: int) -> float:
    """The score of the n-th best row found; minus infinity if there are fewer."""
    scores = np.concatenate([part.scores for part in parts])
    return float(np.partition(scores, -count)[-count]) if len(scores) >= count else -math.inf


def _merged(parts: Sequence[Swept], count: int | None) -> Swept:
    """One ranking from several; scores that are not numbers are left out."""
    scores = np.concatenate([np.empty(0, np.float32), *(scores for scores, _ in parts)])
    ids = np.concatenate([as_keys(()), *(ids for _, ids in parts)])
    possible = np.flatnonzero(scores > -np.inf)
    order = possible[np.argsort(-scores[possible], kind="stable")][:count]
    return scores[order], ids[order]
