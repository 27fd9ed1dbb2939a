"""Search structures: rows compressed or linked so that a query need not read them all.

A structure suggests candidates, which are then scored exactly from the stored rows; it can miss images but never
misjudge one. Kinds:

    pq      every row as 4-bit codes, all of them swept (FAISS fast-scan). Each part of a unit's vector is coded
            together with its squared norm, and the query's weight multiplies both, so that one set of codes serves
            every wildcard pattern and weighting.
    ivf     the same codes in lists around centres, of which only the nearest are swept; for very many images.
    hnsw    a graph over whole vectors (FAISS HNSW). Fast for queries that name all three units, poor for those that
            leave units open: neighbours in the graph are neighbours in all three.

    structures/NAME/shard-N.faiss   FAISS indexes over successive rows
    structures/NAME/scale.npy       the factor of squared norms before coding (pq, ivf)
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.files import atomic_directory
from factlearn.retrieval.folder.arrays import load_array
from factlearn.retrieval.folder.manifest import FileEntry, StructureEntry
from factlearn.retrieval.folder.segments import check_content
from factlearn.retrieval.rows import UNITS

Rows = NDArray[np.float32]
_TRAINING_ROWS = 1 << 16


def _faiss() -> Any:
    import faiss  # its stubs lack half of what it has

    return faiss


class Coding:
    """Cuts rows, and queries likewise, into parts with their norms for a product quantizer."""

    def __init__(self, dimension: int, part: int, scale: float) -> None:
        self.part = part
        self.per_unit = -(-dimension // part)
        self._dimension = dimension
        self.scale = scale

    @property
    def parts(self) -> int:
        """The number of parts per row."""
        return UNITS * self.per_unit

    @property
    def width(self) -> int:
        """The length of a row before coding."""
        return self.parts * (self.part + 1)

    def _cut(self, vectors: Rows) -> Rows:
        units = vectors.reshape(len(vectors), UNITS, self._dimension)
        padding = self.per_unit * self.part - self._dimension
        padded = np.pad(units, ((0, 0), (0, 0), (0, padding))) if padding else units
        return padded.reshape(len(vectors), self.parts, self.part)

    def rows(self, rows: Rows) -> Rows:
        """Each part with its scaled squared norm appended."""
        parts = self._cut(rows[:, :-UNITS])
        norms = self.scale * np.einsum("npd,npd->np", parts, parts)[..., None]
        return np.concatenate([parts, norms], axis=2).reshape(len(rows), -1)

    def queries(self, queries: Rows) -> Rows:
        """The doubled, weighted target of each part, and minus the unit's weight for the norm."""
        parts = self._cut(queries[:, :-UNITS])
        weights = np.repeat(queries[:, -UNITS:], self.per_unit, axis=1) / self.scale
        return np.concatenate([parts, weights[..., None]], axis=2).reshape(len(queries), -1).astype(np.float32)


class Structure:
    """FAISS indexes over successive rows, searched in parallel, so that even a single query uses all cores."""

    def __init__(
        self, shards: Sequence[Any], starts: Sequence[int], settings: Mapping[str, Any], form: Callable[[Rows], Rows]
    ) -> None:
        self._shards, self._starts, self._form = shards, starts, form
        self._settings = settings
        self._pool = ThreadPoolExecutor(len(shards))

    @property
    def candidates(self) -> int:
        """The number of candidates to score exactly per query."""
        return int(self._settings["candidates"])

    def search(self, queries: Rows, count: int) -> tuple[Rows, NDArray[np.int64]]:
        """Approximate inner products and row numbers [Q, count]; -1 where there are no more."""
        formed = self._form(queries)
        answers = list(self._pool.map(lambda shard: _search(shard, formed, count, self._settings), self._shards))
        scores = np.concatenate([scores for scores, _ in answers], axis=1)
        numbers = [
            np.where(found < 0, -1, found + start) for start, (_, found) in zip(self._starts, answers, strict=True)
        ]
        positions = np.concatenate(numbers, axis=1)
        if scores.shape[1] > count:
            kept = np.argpartition(-scores, count - 1, axis=1)[:, :count]
            scores, positions = np.take_along_axis(scores, kept, 1), np.take_along_axis(positions, kept, 1)
        return scores, positions


def _search(shard: Any, queries: Rows, count: int, settings: Mapping[str, Any]) -> tuple[Rows, NDArray[np.int64]]:
    faiss = _faiss()
    parameters = None
    if settings["kind"] == "hnsw":
        parameters = faiss.SearchParametersHNSW(efSearch=max(count, settings["candidates"]))
    elif settings["kind"] == "ivf":
        parameters = faiss.SearchParametersIVF(nprobe=settings["probes"])
    return shard.search(queries, min(count, shard.ntotal), params=parameters)  # type: ignore[no-any-return]


def write_structure(
    index: Path,
    name: str,
    parts: Callable[[], Iterable[Rows]],
    count: int,
    dimension: int,
    settings: Mapping[str, Any],
    covered: Sequence[str],
) -> StructureEntry:
    """Build a structure over rows.

    Args:
        index, name: the folder and the structure's name in it.
        parts: returns all rows in parts; called more than once.
        count: the number of rows.
        dimension: of a unit's vector.
        settings: `kind`, `candidates`, and those of the kind: `part` (pq, ivf), `lists` and `probes` (ivf),
            `links` (hnsw).
        covered: the names of the segments that the rows come from.
    """
    build = _graphs if settings["kind"] == "hnsw" else _codes
    with atomic_directory(index / "structures" / name) as made:
        for number, shard in enumerate(build(parts, count, dimension, settings, made)):
            _write_shard(shard, made / f"shard-{number}.faiss")
        files = {f"structures/{name}/{file.name}": FileEntry.of(file) for file in sorted(made.iterdir())}
    return StructureEntry(
        name=name,
        kind=settings["kind"],
        segments=tuple(covered),
        settings=dict(settings),
        measured={},
        files=files,
    )


def _write_shard(shard: Any, path: Path) -> None:
    try:
        _faiss().write_index(shard, str(path))
    except RuntimeError as error:  # how FAISS says that a file cannot be written
        raise FactIndexError(
            f"{path.parent} could not be written ({str(error).splitlines()[0]}); free some space and try again."
        ) from error


def structure_bytes(entry: StructureEntry) -> int:
    """The memory that an open structure takes."""
    return sum(file.bytes for file in entry.files.values())


def _shard_count() -> int:
    return max(1, min(8, os.cpu_count() or 1))


def _limits(count: int) -> list[int]:
    """The row at which each shard ends."""
    shards = _shard_count()
    return [count * (number + 1) // shards for number in range(shards)]


def _dealt(parts: Iterable[Rows], ends: Sequence[int]) -> Iterable[tuple[int, Rows]]:
    """Rows with the number of their shard."""
    at, shard = 0, 0
    for part in parts:
        left = part
        while len(left):
            while at >= ends[shard]:
                shard += 1
            taken = left[: ends[shard] - at]
            yield shard, taken
            at += len(taken)
            left = left[len(taken) :]


def _codes(
    parts: Callable[[], Iterable[Rows]], count: int, dimension: int, settings: Mapping[str, Any], folder: Path
) -> list[Any]:
    faiss = _faiss()
    sample = _sample(parts(), count)
    coding = Coding(dimension, settings["part"], 1.0)
    cut = coding.rows(sample).reshape(-1, coding.part + 1)
    coding.scale = float(0.1 * cut[:, :-1].std() / max(float(cut[:, -1].std()), 1e-12))
    np.save(folder / "scale.npy", np.float64(coding.scale), allow_pickle=False)
    metric = faiss.METRIC_INNER_PRODUCT
    if settings["kind"] == "ivf":
        centres = faiss.IndexFlatIP(coding.width)
        template = faiss.IndexIVFPQFastScan(centres, coding.width, settings["lists"], coding.parts, 4, metric)
        template.by_residual = False
    else:
        template = faiss.IndexPQFastScan(coding.width, coding.parts, 4, metric)
    template.train(coding.rows(sample))
    shards = [template, *(faiss.clone_index(template) for _ in range(_shard_count() - 1))]
    for shard, rows in _dealt(parts(), _limits(count)):
        shards[shard].add(coding.rows(rows))
    return shards


def _graphs(
    parts: Callable[[], Iterable[Rows]], count: int, dimension: int, settings: Mapping[str, Any], folder: Path
) -> list[Any]:
    """One graph per shard, linked by distances between whole vectors and searched by a query's inner product."""
    faiss = _faiss()
    width = UNITS * dimension
    graphs = [faiss.IndexHNSWFlat(width, settings["links"], faiss.METRIC_L2) for _ in range(_shard_count())]
    stored = [faiss.IndexFlatIP(width + UNITS) for _ in graphs]
    for shard, rows in _dealt(parts(), _limits(count)):
        graphs[shard].add(np.ascontiguousarray(rows[:, :width]))
        stored[shard].add(np.ascontiguousarray(rows))
    for graph, flat in zip(graphs, stored, strict=True):
        graph.storage.this.disown()
        graph.storage = flat
        flat.this.disown()
        graph.d, graph.metric_type = flat.d, flat.metric_type
    return graphs


def _sample(parts: Iterable[Rows], count: int) -> Rows:
    """Rows to learn codes from, evenly spaced."""
    step = max(1, count // _TRAINING_ROWS)
    found, at = [], 0
    for part in parts:
        found.append(np.array(part[-at % step :: step]))
        at += len(part)
    return np.concatenate(found)


def open_structure(index: Path, entry: StructureEntry) -> Structure:
    """Load a structure after checking its files."""
    faiss = _faiss()
    for path, file in entry.files.items():
        check_content(index, path, file)
    folder = index / "structures" / entry.name
    try:
        names = sorted(folder.glob("shard-*.faiss"), key=lambda path: int(path.stem.split("-")[1]))
        shards = [shard for shard in (faiss.read_index(str(path)) for path in names) if shard.ntotal]
    except RuntimeError as error:
        raise FactIndexError(
            f"{folder} cannot be read ({str(error).splitlines()[0]}); optimize the index again."
        ) from None
    starts = np.cumsum([0, *(shard.ntotal for shard in shards)])[:-1].tolist()
    if entry.kind == "hnsw":
        return Structure(shards, starts, entry.settings, lambda queries: queries)
    width = shards[0].d
    part = entry.settings["part"]
    coding = Coding(entry.settings["dimension"], part, float(load_array(folder / "scale.npy")))
    assert coding.width == width
    return Structure(shards, starts, entry.settings, coding.queries)
