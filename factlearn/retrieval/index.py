"""The fact index: images found by triplet text, with wildcards, exactly as by brute force."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.facts import UNIT_NAMES, Fact, FactQuery, Vocabulary
from factlearn.language import LanguageSpace
from factlearn.retrieval import storage
from factlearn.retrieval.search import Nearest, RowSearcher, pack, unpack

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Hit:
    """An image that answers a query.

    Attributes:
        id: the image's id.
        path: where the image was when it was indexed.
        score: minus the sum of squared distances over the units the query names; higher is better.
        scores: minus the squared distance of each named unit.
        fact: the fact the image is known to show, if any.
        metadata: what else was stored of it.
    """

    id: str
    path: Path
    score: float
    scores: Mapping[str, float]
    fact: Fact | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        fact = None if self.fact is None else str(self.fact)
        return {
            "id": self.id,
            "path": str(self.path),
            "score": self.score,
            "scores": dict(self.scores),
            "fact": fact,
            "metadata": dict(self.metadata),
        }


class FactIndex:
    """Image vectors that can be asked for facts; opened from a folder with `open`, made with `create`.

    Example:
        >>> index = FactIndex.open("indexes/demo")  # doctest: +SKIP
        >>> [hit.path for hit in index.query("<person, *, bike>", k=5)]  # doctest: +SKIP
    """

    def __init__(
        self,
        path: Path,
        header: storage.Header,
        rows: NDArray[np.float32],
        items: "pa.Table",
        language: LanguageSpace | None,
    ) -> None:
        self.path = path
        self._header = header
        self._rows = rows
        self._items = items
        self._language = language
        self._searcher = RowSearcher(rows, self._ids)

    @classmethod
    def create(
        cls,
        path: Path | str,
        vectors: NDArray,
        ids: Sequence[str],
        *,
        paths: Sequence[Path | str],
        language: LanguageSpace,
        model: str,
        known_facts: Iterable[Fact] = (),
        facts: Sequence[Fact | None] | None = None,
        metadata: Sequence[Mapping[str, str]] | None = None,
        overwrite: bool = False,
    ) -> Self:
        """Write an index of image vectors and open it.

        Args:
            path: the folder to make.
            vectors: float32 [N, 3, D].
            ids: N distinct ids, which order images of equal score.
            paths: where each image is.
            language: the space the vectors were trained to land in; saved inside the index.
            model: the fingerprint of the model that made the vectors.
            known_facts: the facts the model knows; their units are those that plain-text queries may name.
            facts: the fact each image is known to show, None where unknown.
            metadata: more about each image.
            overwrite: replace an index already there.

        Raises:
            FactIndexError: if there is nothing to index, the arguments do not fit together, a vector is not
                finite, or the place is taken.
        """
        count = len(ids)
        facts = [None] * count if facts is None else facts
        metadata = [{}] * count if metadata is None else metadata
        _check_columns(vectors, ids, {"paths": paths, "facts": facts, "metadata": metadata})
        if vectors.shape[-1] != language.dimension:
            raise FactIndexError(
                f"The vectors have dimension {vectors.shape[-1]}, the language space {language.dimension}; "
                "index vectors of a model trained in this space."
            )
        known = sorted(set(known_facts))
        language.embed(known)  # so that the units of known facts are saved with the space
        header = storage.Header(vectors.shape[-1], count, model, language.fingerprint, tuple(known))
        items = storage.items_table(ids, paths, facts, metadata)
        storage.write(Path(path), header, pack(vectors), items, language, overwrite=overwrite)
        return cls.open(path, language)

    @classmethod
    def open(cls, path: Path | str, language: LanguageSpace | None = None, *, verify: bool = True) -> Self:
        """Open an index; without a language space it uses the one it was built with.

        Args:
            path: the index's folder.
            language: the space that turns query text into vectors; must be the one the index was built with.
            verify: check the content of every file, not only its size.

        Raises:
            FactIndexError: if there is no index, a file is damaged, or the language space is another one.
        """
        path = Path(path)
        header, rows, items = storage.read(path, verify=verify)
        if language is not None and language.fingerprint != header.language:
            raise FactIndexError(
                f"{path} was built in the language space {header.language}, not {language.fingerprint}; "
                "distances between them mean nothing: open it without a space, or build it again in this one."
            )
        return cls(path, header, rows, items, language)

    def check_model(self, fingerprint: str) -> None:
        """Refuse a model other than the one that made the index's vectors.

        Raises:
            FactIndexError: if the fingerprints differ.
        """
        if fingerprint != self.model:
            raise FactIndexError(f"{self.path} was built by the model {self.model}, not {fingerprint}; build it again.")

    def __len__(self) -> int:
        return self._header.count

    @property
    def dimension(self) -> int:
        """The length of a unit's vector."""
        return self._header.dimension

    @property
    def model(self) -> str:
        """The fingerprint of the model that made the vectors."""
        return self._header.model

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts known when the index was built, sorted."""
        return self._header.facts

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The image vectors [N, 3, D], memory-mapped, in the order of `ids`."""
        return unpack(self._rows)

    @property
    def ids(self) -> list[str]:
        """The ids of all images."""
        return self._items.column("id").to_pylist()  # type: ignore[no-any-return]

    @property
    def paths(self) -> list[Path]:
        """Where the images were when they were indexed, in the order of `vectors`."""
        return [Path(text) for text in self._items.column("path").to_pylist()]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The units plain-text queries may name."""
        return Vocabulary.of(self.facts)

    @property
    def language(self) -> LanguageSpace:
        """The language space of the index; loaded from its folder when first needed."""
        if self._language is None:
            self._language = LanguageSpace.load(self.path / storage.LANGUAGE)
        return self._language

    def query(self, query: str | Fact | FactQuery, k: int = 10) -> list[Hit]:
        """The k images that answer a query best; all of them if there are fewer.

        Raises:
            FactIndexError: if k is less than 1.
            FactError: if the text is no query.
            LanguageError: if a unit has no vector.
        """
        return self.query_many([query], k)[0]

    def query_many(self, queries: Sequence[str | Fact | FactQuery], k: int = 10) -> list[list[Hit]]:
        """The k best images for each of several queries, in one sweep; see `query`."""
        if k < 1:
            raise FactIndexError(f"k must be at least 1, not {k}; it is how many images to return.")
        parsed = [self.parse(query) for query in queries]
        if not parsed:
            return []
        targets, mask = self.language.embed(parsed)
        answers = self._searcher.nearest(targets, mask, min(k, len(self)))
        return [self._hits(answer, named) for answer, named in zip(answers, mask, strict=True)]

    def parse(self, query: str | Fact | FactQuery) -> FactQuery:
        """Read a query; plain words are read as units the index knows."""
        if isinstance(query, str):
            return FactQuery.parse(query, self.vocabulary)
        return FactQuery.of(query) if isinstance(query, Fact) else query

    def _ids(self, positions: NDArray[np.int64]) -> list[str]:
        return self._items.column("id").take(positions).to_pylist()  # type: ignore[no-any-return]

    def _hits(self, answer: Nearest, mask: NDArray[np.bool_]) -> list[Hit]:
        hits = []
        for item, by_unit in zip(self._items.take(answer.positions).to_pylist(), answer.by_unit, strict=True):
            hits.append(
                Hit(
                    id=item["id"],
                    path=Path(item["path"]),
                    score=float((by_unit * mask).sum()),
                    scores={
                        name: float(value)
                        for name, value, named in zip(UNIT_NAMES, by_unit, mask, strict=True)
                        if named
                    },
                    fact=None if item["fact"] is None else Fact.parse(item["fact"]),
                    metadata={
                        key.removeprefix(storage.METADATA): value
                        for key, value in item.items()
                        if key.startswith(storage.METADATA) and value is not None
                    },
                )
            )
        return hits


def _check_columns(vectors: NDArray, ids: Sequence[str], columns: Mapping[str, Sequence[Any]]) -> None:
    if not len(ids):
        raise FactIndexError("There are no images to index; give at least one.")
    for name, column in {"vectors": vectors, **columns}.items():
        if len(column) != len(ids):
            raise FactIndexError(f"There are {len(column)} {name} for {len(ids)} ids; give one an image.")
    if len(set(ids)) != len(ids):
        twice = next(name for name, times in Counter(ids).items() if times > 1)
        raise FactIndexError(f"The image id {twice!r} appears twice; every image needs its own.")
