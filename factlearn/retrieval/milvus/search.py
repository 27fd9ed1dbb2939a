"""Searching the rows of a Milvus collection.

Milvus finds the rows of highest inner product, which are scored again here. One answer of Milvus has a limit; beyond it
ids are cut into ranges that are searched one by one.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.retrieval.folder.segments import METADATA, row_sums
from factlearn.retrieval.milvus.client import BATCH, MOST, Connection
from factlearn.retrieval.milvus.filter import BUILT_IN, between, implied, one_of
from factlearn.retrieval.milvus.record import Head, Record
from factlearn.retrieval.milvus.rows import as_keys, column_of, item_of
from factlearn.retrieval.search import Keys
from factlearn.retrieval.store import About
from factlearn.retrieval.where import Filter, columns_of, matching

FEW = 512  # rows tried first where it is unknown how many are needed
_QUERIES = 64

Swept = tuple[NDArray[np.float32], Keys]


@dataclass(frozen=True)
class _Range:
    """The best rows with ids from `low` to before `high`; those left out score at most `floor`."""

    low: str | None
    high: str | None
    scores: NDArray[np.float32]
    ids: Keys
    floor: float

    def halves(self) -> list[tuple[str | None, str | None]]:
        """Two ranges with half of the found ids each."""
        middle = sorted(self.ids)[len(self.ids) // 2]
        return [(self.low, middle), (middle, self.high)]


class MilvusStore:
    """The images of an index in Milvus; a key is an image's id."""

    def __init__(self, connection: Connection, head: Head, record: Record) -> None:
        self.connection = connection
        self.collection = connection.address.collection
        self.head = head
        self.record = record
        self.about: About = record.about()
        self._count = connection.count(self.collection)
        described = connection.call("describe_index", self.collection, "row") or {}
        self._flat: bool = described.get("index_type", "FLAT") == "FLAT"
        self._passing = lru_cache(maxsize=8)(self._filtered)

    @property
    def place(self) -> str:
        """The address, without secrets."""
        return self.connection.address.place

    def __len__(self) -> int:
        return self._count

    @property
    def exact(self) -> bool:
        """Whether every row is swept: not if the server was told to use another index."""
        return self._flat

    @property
    def largest(self) -> NDArray[np.float64]:
        """The largest squared norm of each unit."""
        return np.asarray(self.record.largest, np.float64)

    @property
    def columns(self) -> list[str]:
        """What filters may name."""
        return [*BUILT_IN, *sorted(self.record.keys)]

    def keys(self, where: Filter | None = None) -> Keys:
        """The ids of all images, or of those that pass a filter, sorted."""
        expressions = self._passing(where)
        if isinstance(expressions, tuple):
            return as_keys(expressions)
        batches = self.connection.ids(self.collection, expressions, MOST)
        return as_keys(name for batch in batches for name in batch)

    def _filtered(self, where: Filter | None) -> str | tuple[str, ...]:
        """The expression for what passes a filter, or if none says it the ids."""
        if where is None:
            return ""
        for name in columns_of(where):
            if name.removeprefix(METADATA) not in self.columns:
                known = ", ".join(self.columns)
                raise FactIndexError(f"The index has no column {name!r} to filter by; it has {known}.")
        expression, exact = implied(where)
        if exact:
            return expression
        passed: list[str] = []
        for batch in self.batches(expression, [*BUILT_IN, "texts"]):
            good = matching(where, lambda name, rows=batch: column_of(name, rows))  # type: ignore[misc]
            passed += [row["id"] for row, passes in zip(batch, good, strict=True) if passes]
        return tuple(passed)

    def batches(self, expression: str, columns: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
        """Some columns of all images that satisfy an expression, in the order of their ids."""
        for ids in self.connection.ids(self.collection, expression, MOST):
            for start in range(0, len(ids), BATCH):
                chosen = one_of(ids[start : start + BATCH])
                yield sorted(self.connection.query(self.collection, chosen, ["id", *columns]), key=itemgetter("id"))

    def _expressions(self, where: Filter | None) -> list[str]:
        """What passes a filter, as expressions for one search each."""
        found = self._passing(where)
        if isinstance(found, str):
            return [found]
        return [one_of(list(found[start : start + MOST])) for start in range(0, len(found), MOST)]

    def take(self, keys: Keys) -> NDArray[np.float32]:
        """Rows by id, each checked."""
        rows = np.empty((len(keys), 3 * self.about.dimension + 3), np.float32)
        sums = np.empty(len(keys), np.uint64)
        for place, row in enumerate(self._get(keys, ["row", "sum"])):
            rows[place], sums[place] = row["row"], int(row["sum"], 16)
        wrong = np.flatnonzero(row_sums(rows) != sums)
        if len(wrong):
            raise self.damaged(keys[wrong[0]])
        return rows

    def damaged(self, image: str) -> FactIndexError:
        """The error for an image whose row is not as it was written."""
        return FactIndexError(f"{self.place} is damaged at image {image!r} (its checksum differs); add it again.")

    def names(self, keys: Keys) -> list[str]:
        """The images' ids."""
        return list(keys)

    def items(self, keys: Keys) -> list[dict[str, Any]]:
        """What is stored of images, beside their vectors."""
        return [item_of(row) for row in self._get(keys, [*BUILT_IN, "texts", "file"])]

    def _get(self, keys: Keys, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Some columns of images, in the order of the keys."""
        for start in range(0, len(keys), BATCH):
            ids = list(keys[start : start + BATCH])
            found = self.connection.query(self.collection, one_of(ids), ["id", *columns])
            rows = {row["id"]: row for row in found}
            for name in ids:
                if name not in rows:
                    raise FactIndexError(f"{self.place} has no image {name!r} any more; open it again.")
                yield rows[name]

    def sweep(self, queries: NDArray[np.float32], count: int, where: Filter | None) -> list[Swept]:
        """For each query the rows of highest inner product, best first."""
        answers: list[list[Swept]] = [[] for _ in queries]
        for expression in self._expressions(where):
            if count <= MOST:
                for start in range(0, len(queries), _QUERIES):
                    found = self._search(queries[start : start + _QUERIES], count, expression)
                    for place, answer in enumerate(found, start):
                        answers[place].append(answer)
            else:
                for place, query in enumerate(queries):
                    answers[place].append(self._search_deep(query, expression, lambda parts: _nth(parts, count)))
        return [_merged(parts, count) for parts in answers]

    def above(self, query: NDArray[np.float32], least: float, where: Filter | None) -> Keys:
        """The rows whose float32 inner product is at least `least`."""
        if not np.isfinite(least):
            return self.keys(where)
        found = []
        for expression in self._expressions(where):
            ((scores, ids),) = self._search(query[None], FEW, expression)
            if len(ids) == FEW and float(scores[-1]) >= least:
                scores, ids = self._search_deep(query, expression, lambda _: math.nextafter(least, -math.inf))
            found.append(ids[scores >= np.float64(least)])
        return np.concatenate([as_keys(()), *found])

    def _search_deep(
        self, query: NDArray[np.float32], expression: str, bound: Callable[[list[_Range]], float]
    ) -> Swept:
        """Every row that scores above a bound, which may depend on what was found, however many they are."""
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
        found = self.connection.call(
            "search",
            self.collection,
            data=list(queries),
            anns_field="row",
            filter=expression,
            limit=limit,
            output_fields=["id"],
            search_params={"metric_type": "IP"},
            consistency_level="Strong",
        )
        return [
            (np.asarray([hit["distance"] for hit in hits], np.float32), as_keys([hit["id"] for hit in hits]))
            for hits in found
        ]


def _nth(parts: Sequence[_Range], count: int) -> float:
    """The score of the n-th best row found; none if there are fewer."""
    scores = np.concatenate([part.scores for part in parts])
    return float(np.partition(scores, -count)[-count]) if len(scores) >= count else -math.inf


def _merged(parts: Sequence[Swept], count: int | None) -> Swept:
    """One ranking out of several; a score that is no number is left out."""
    scores = np.concatenate([np.empty(0, np.float32), *(scores for scores, _ in parts)])
    ids = np.concatenate([as_keys(()), *(ids for _, ids in parts)])
    possible = np.flatnonzero(scores > -np.inf)
    order = possible[np.argsort(-scores[possible], kind="stable")][:count]
    return scores[order], ids[order]
