"""The rows of an index folder as one store: its segments one after the other, removed images left out."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.retrieval.folder.manifest import Manifest
from factlearn.retrieval.folder.segments import METADATA, Segment
from factlearn.retrieval.folder.structures import Structure, open_structure
from factlearn.retrieval.search import CHUNK, Keys
from factlearn.retrieval.where import Filter, columns_of, matching

if TYPE_CHECKING:
    import pyarrow as pa

Swept = tuple[NDArray[np.float32], Keys]
_BUILT_IN = ("id", "path", "fact")
_FEW = 20_000  # so many rows are scored directly rather than searched through a structure


class FolderStore:
    """A snapshot of an index folder; a key is the position among all segments' rows."""

    def __init__(self, path: Path, manifest: Manifest, segments: Sequence[Segment]) -> None:
        self.path = path
        self.manifest = manifest
        self.segments = segments
        self._starts = np.cumsum([0, *map(len, segments)])
        self._alive = self._not_deleted()
        self.allowed = lru_cache(maxsize=8)(self._allowed)
        self._structure: Structure | None = None
        self._covered = 0
        if manifest.structure is not None:
            names = [segment.entry.name for segment in segments]
            covered = len(manifest.structure.segments)
            if tuple(names[:covered]) == manifest.structure.segments:
                self._structure = open_structure(path, manifest.structure)
                self._covered = covered

    def _not_deleted(self) -> NDArray[np.bool_] | None:
        if all(segment.deleted is None for segment in self.segments):
            return None
        parts = [np.ones(len(s), bool) if s.deleted is None else ~s.deleted for s in self.segments]
        return np.concatenate(parts)

    def __len__(self) -> int:
        return int(self._starts[-1]) - sum(segment.entry.removed for segment in self.segments)

    @property
    def exact(self) -> bool:
        """Whether every row is swept."""
        return self._structure is None

    @property
    def largest(self) -> NDArray[np.float64]:
        """The largest squared norm of each unit."""
        return np.max([segment.entry.largest for segment in self.segments], axis=0)  # type: ignore[no-any-return]

    def keys(self, where: Filter | None = None) -> NDArray[np.int64]:
        """The keys of all images, or of those that pass a filter, in the order they were added."""
        allowed = self.allowed(where)
        return np.arange(self._starts[-1]) if allowed is None else np.flatnonzero(allowed)

    def _allowed(self, where: Filter | None) -> NDArray[np.bool_] | None:
        if where is None:
            return self._alive
        for name in columns_of(where):
            self._check_column(name)
        passed = [matching(where, self._columns(segment)) for segment in self.segments]
        found: NDArray[np.bool_] = np.concatenate([np.zeros(0, bool), *passed])
        return found if self._alive is None else found & self._alive

    @property
    def columns(self) -> list[str]:
        """What filters may name."""
        names = {name for segment in self.segments for name in segment.items.column_names}
        keys = (name.removeprefix(METADATA) for name in names if name.startswith(METADATA))
        return [*_BUILT_IN, "model", *sorted(keys)]

    def _check_column(self, name: str) -> None:
        if name.removeprefix(METADATA) not in self.columns:
            raise FactIndexError(f"The index has no column {name!r} to filter by; it has {', '.join(self.columns)}.")

    @staticmethod
    def _columns(segment: Segment) -> Callable[[str], "pa.ChunkedArray"]:
        import pyarrow as pa

        def column(name: str) -> "pa.ChunkedArray":
            if name == "model":
                return pa.chunked_array([pa.array([segment.entry.model] * len(segment), pa.string())])
            stored = name if name in _BUILT_IN else METADATA + name.removeprefix(METADATA)
            if stored in segment.items.column_names:
                return segment.items.column(stored)
            return pa.chunked_array([pa.nulls(len(segment), pa.string())])

        return column

    def sweep(self, queries: NDArray[np.float32], count: int, where: Filter | None) -> list[Swept]:
        """For each query the rows of highest inner product, best first."""
        allowed = self.allowed(where)
        first, answers = 0, []
        if self._structure is not None and (allowed is None or allowed.sum() > _FEW):
            first = self._covered
            answers.append(self._approximate(queries, count, allowed))
        for number, segment in enumerate(self.segments[first:], first):
            start = int(self._starts[number])
            chosen = None if allowed is None else allowed[start : start + len(segment)]
            parts = _flat(segment, queries, count, chosen)
            answers += [(scores, np.where(keys < 0, -1, keys + start)) for scores, keys in parts]
        return _merged(answers, len(queries), None if first else count)

    def _approximate(
        self, queries: NDArray[np.float32], count: int, allowed: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.float32], Keys]:
        """Candidates for the exact score, more of them the fewer are allowed."""
        assert self._structure is not None
        covered = int(self._starts[self._covered])
        share = 1.0 if allowed is None else float(allowed[:covered].mean())
        wanted = min(covered, int(max(count, self._structure.candidates) / max(share, 0.01)))
        scores, positions = self._structure.search(queries, wanted)
        if allowed is not None or (positions < 0).any():
            outside = positions < 0
            if allowed is not None:
                outside |= ~allowed[np.maximum(positions, 0)]
            scores = np.where(outside, -np.inf, scores).astype(np.float32)
        return scores, positions

    def above(self, query: NDArray[np.float32], least: float, where: Filter | None) -> Keys:
        """The rows whose float32 inner product is at least `least`."""
        allowed = self.allowed(where)
        found = [np.empty(0, np.int64)]
        for segment, start in zip(self.segments, self._starts, strict=False):
            for at, rows in _chunks(segment):
                good = rows @ query >= np.float64(least) if np.isfinite(least) else np.ones(len(rows), bool)
                if allowed is not None:
                    good &= allowed[start + at : start + at + len(rows)]
                found.append(np.flatnonzero(good) + start + at)
        return np.concatenate(found)

    def take(self, keys: Keys) -> NDArray[np.float32]:
        """Rows by key, each checked."""
        rows = np.empty((len(keys), 3 * self.manifest.dimension + 3), np.float32)
        number = np.searchsorted(self._starts, keys, side="right") - 1
        for each in np.unique(number):
            places = np.flatnonzero(number == each)
            rows[places] = self.segments[each].take(keys[places] - self._starts[each])
        return rows

    def names(self, keys: Keys) -> list[str]:
        """The images' ids."""
        return [item["id"] for item in self.items(keys, ("id",))]

    def items(self, keys: Keys, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """What is stored of images, beside their vectors; `model` is the version that embedded them."""
        numbers = np.searchsorted(self._starts, keys, side="right") - 1
        found: list[dict[str, Any]] = [{}] * len(keys)
        for number in np.unique(numbers).tolist():
            segment, places = self.segments[number], np.flatnonzero(numbers == number)
            table = segment.items if columns is None else segment.items.select(columns)
            items = table.take(keys[places] - self._starts[number]).to_pylist()
            for place, item in zip(places.tolist(), items, strict=True):
                found[place] = {**item, "model": segment.entry.model}
        return found


def _chunks(segment: Segment) -> Iterator[tuple[int, NDArray[np.float32]]]:
    for start in range(0, len(segment), CHUNK):
        yield start, segment.rows[start : start + CHUNK]


def _flat(
    segment: Segment, queries: NDArray[np.float32], count: int, allowed: NDArray[np.bool_] | None
) -> Iterator[tuple[NDArray[np.float32], Keys]]:
    """The best rows of one segment for each query; in several parts where only some are allowed."""
    import faiss

    metric = faiss.METRIC_INNER_PRODUCT
    if allowed is None:
        yield faiss.knn(queries, segment.rows, min(count, len(segment)), metric=metric)
        return
    for start, rows in _chunks(segment):
        chosen = np.flatnonzero(allowed[start : start + len(rows)])
        if len(chosen):
            scores, places = faiss.knn(queries, rows[chosen], min(count, len(chosen)), metric=metric)
            yield scores, np.where(places < 0, -1, chosen[places] + start)


def _merged(parts: Sequence[tuple[NDArray[np.float32], Keys]], queries: int, count: int | None) -> list[Swept]:
    """One ranking a query out of several, cut to `count`; a key is -1 where a score is no number."""
    if not parts:
        return [(np.empty(0, np.float32), np.empty(0, np.int64))] * queries
    scores = np.concatenate([scores for scores, _ in parts], axis=1)
    keys = np.concatenate([keys for _, keys in parts], axis=1)
    merged = []
    for row_scores, row_keys in zip(scores, keys, strict=True):
        possible = np.flatnonzero((row_scores > -np.inf) & (row_keys >= 0))
        order = possible[np.argsort(-row_scores[possible], kind="stable")][:count]
        merged.append((row_scores[order], row_keys[order]))
    return merged
