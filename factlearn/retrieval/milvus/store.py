"""The store of indexes in Milvus: a server or cluster for more than one machine can hold, or a milvus-lite file.

An address is `milvus://host:port/collection` or `milvus:file.db/collection` (`address.py`). The collection has one row
per image (`rows.py`); a second one holds the index's own record (`record.py`). Answers equal those of an index folder,
and come from all images or are an error (`whole.py`).

Unlike a folder, a collection is not a snapshot. A process sees its own changes at once, and what others wrote before it
opened the index. What they write afterwards, it sees after some 100 ms, images while they are being written and facts
and models after `reload`. Only one process writes at a time (`lease.py`); what it has written is on the server's disk
before it says so.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.facts import Fact
from factlearn.language import LanguageSpace
from factlearn.retrieval.about import About, Version
from factlearn.retrieval.items import Images
from factlearn.retrieval.milvus import writer
from factlearn.retrieval.milvus.address import Address
from factlearn.retrieval.milvus.client import MOST, Connection
from factlearn.retrieval.milvus.filter import BUILT_IN, implied, one_of
from factlearn.retrieval.milvus.record import Head, Record, RecordStore
from factlearn.retrieval.milvus.rows import ITEM, as_keys, column_of, item_of, read_all
from factlearn.retrieval.milvus.search import Search
from factlearn.retrieval.milvus.whole import Guard
from factlearn.retrieval.rows import Keys, Swept, row_sums, width_of
from factlearn.retrieval.stores import Item, Part, Store, store
from factlearn.retrieval.where import Filter, check_columns, matching


@store("milvus", summary="A Milvus server or cluster, or a milvus-lite file.")
class MilvusStore(Store):
    """An index in Milvus; a key is an image's id."""

    def __init__(self, connection: Connection, head: Head, record: Record) -> None:
        self.connection = connection
        self.collection = connection.address.collection
        self.head = head
        self.record = record
        self._search = Search(connection)
        self._guard = Guard(self._records, head)
        self._count = self._guard.count(strong=True)
        described = connection.call("describe_index", self.collection, "row") or {}
        self._flat: bool = described.get("index_type", "FLAT") == "FLAT"
        self._passing = lru_cache(maxsize=8)(self._filtered)

    # Opening and making

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Open the present state of an index.

        Raises:
            FactIndexError: if Milvus cannot be reached, or there is no index.
        """
        return cls._read(cls._loaded(path))

    @classmethod
    def _loaded(cls, path: Path | str) -> Connection:
        """A connection to an index whose collections are in memory."""
        connection = Connection(Address.parse(path))
        records = RecordStore(connection)
        if not (records.exists and connection.has(connection.address.collection)):
            raise FactIndexError(
                f"{connection.address.place} is not an index (no such collection); build one with "
                "`factlearn index build`."
            )
        records.load()
        connection.load(connection.address.collection)
        return connection

    @classmethod
    def _read(cls, connection: Connection) -> Self:
        records = RecordStore(connection)
        head = records.head()
        while True:
            try:
                return cls(connection, head, records.record(head))
            except FactIndexError:
                newer = records.head()
                if newer.generation == head.generation:
                    raise
                head = newer  # a writer replaced the record meanwhile

    @classmethod
    def create(
        cls, path: Path | str, about: About, language: LanguageSpace, parts: Iterable[Part], *, overwrite: bool
    ) -> Self:
        """Make an index; one that is overwritten is dropped first."""
        return cls._read(writer.make(Address.parse(path), about, language, parts, overwrite=overwrite))

    @classmethod
    def check_place(cls, path: Path | str, *, overwrite: bool) -> None:
        """Refuse a collection that is taken."""
        address = Address.parse(path)
        if address.file is None or address.file.exists():
            RecordStore(Connection(address)).check_place(overwrite=overwrite)

    @classmethod
    def shown(cls, path: Path | str) -> str:
        """The address without secrets."""
        return Address.parse(path).place

    def reload(self) -> Self:
        """The newest state."""
        return self._read(self.connection)

    def is_current(self) -> bool:
        """Whether no one has changed the index since it was opened."""
        return not self.head.writing and self._records.head().generation == self.head.generation

    # What it holds

    @property
    def place(self) -> str:
        """The address, without secrets."""
        return self.connection.address.place

    @cached_property
    def about(self) -> About:
        """What the index says about itself."""
        return self.record.about()

    @property
    def _records(self) -> RecordStore:
        return RecordStore(self.connection)

    def describe(self) -> dict[str, Any]:
        """The number of changes, the server's version, filter columns, and how the index is searched."""
        version = "milvus-lite" if self.connection.address.file else str(self.connection.call("get_server_version"))
        return {
            "generation": self.head.generation,
            "server": version,
            "columns": self._columns,
            "search": {"kind": "flat" if self._flat else "the server's own"},
        }

    @property
    def _columns(self) -> list[str]:
        return [*BUILT_IN, *sorted(self.record.keys)]

    def load_language(self) -> LanguageSpace:
        """The language space saved with the index."""
        return self._records.language(self._records.head())

    def __len__(self) -> int:
        return self._count

    def keys(self, where: Filter | None = None) -> Keys:
        """The ids of all images, or of those that pass a filter, sorted."""
        found = self._passing(where)
        if isinstance(found, tuple):
            return as_keys(found)
        batches = self._guard.whole(lambda: list(self.connection.ids(self.collection, found)))
        return as_keys(itertools.chain.from_iterable(batches))

    def _filtered(self, where: Filter | None) -> str | tuple[str, ...]:
        """The expression for images that pass a filter; their ids if there is no such expression."""
        if where is None:
            return ""
        check_columns(where, self._columns)
        expression, exact = implied(where, substrings=self._substrings)
        if exact:
            return expression
        return self._guard.whole(lambda: tuple(self._tested(where, expression)))

    @cached_property
    def _substrings(self) -> bool:
        return self.connection.finds_substrings

    def _tested(self, where: Filter, expression: str) -> Iterator[str]:
        """The ids of images that pass a filter, tested here, of those that satisfy an expression."""
        for batch in read_all(self.connection, expression, ITEM):
            good = matching(where, lambda name, rows=batch: column_of(name, rows))  # type: ignore[misc]
            yield from (row["id"] for row, passes in zip(batch, good, strict=True) if passes)

    def take(self, keys: Keys) -> NDArray[np.float32]:
        """Rows by id, each checked."""
        rows = np.empty((len(keys), width_of(self.about.dimension)), np.float32)
        sums = np.empty(len(keys), np.uint64)
        for place, row in enumerate(self._search.rows(keys, ["row", "sum"])):
            rows[place], sums[place] = row["row"], int(row["sum"], 16)
        wrong = np.flatnonzero(row_sums(rows) != sums)
        if len(wrong):
            raise self._damaged(keys[wrong[0]])
        return rows

    def _damaged(self, image: str) -> FactIndexError:
        return FactIndexError(f"{self.place} is damaged at image {image!r} (its checksum differs); add it again.")

    def names(self, keys: Keys) -> list[str]:
        """The images' ids."""
        return list(keys)

    def items(self, keys: Keys) -> list[dict[str, Any]]:
        """Items by id."""
        return [item_of(row) for row in self._search.rows(keys, ITEM)]

    # Searching

    @property
    def exact(self) -> bool:
        """Whether every row is swept; not if an operator replaced the flat index by another."""
        return self._flat

    @property
    def largest(self) -> NDArray[np.float64]:
        """The largest squared norm of each unit."""
        return np.asarray(self.record.largest, np.float64)

    def sweep(self, queries: NDArray[np.float32], count: int, where: Filter | None) -> list[Swept]:
        """For each query the rows of highest inner product, best first."""
        expressions = self._expressions(where)
        return self._guard.whole(lambda: self._search.sweep(queries, count, expressions))

    def above(self, query: NDArray[np.float32], least: float, where: Filter | None) -> Keys:
        """The rows whose float32 inner product is at least `least`."""
        if not np.isfinite(least):
            return self.keys(where)
        expressions = self._expressions(where)
        return self._guard.whole(lambda: self._search.above(query, least, expressions))

    def _expressions(self, where: Filter | None) -> list[str]:
        """What passes a filter, as one expression per search."""
        found = self._passing(where)
        if isinstance(found, str):
            return [found]
        return [one_of(found[start : start + MOST]) for start in range(0, len(found), MOST)]

    # Changing and maintaining

    def add(self, images: Images, version: Version, facts: Iterable[Fact], language: LanguageSpace) -> None:
        """Store images, replacing those with the same ids."""
        writer.add(self._records, images, version, facts, language)

    def remove(self, ids: Collection[str]) -> int:
        """Remove images; returns how many there were."""
        return writer.remove(self._records, ids)

    @classmethod
    def restore(cls, path: Path | str, language: LanguageSpace | None = None) -> list[Item]:
        """Accept the images that are there: those that the server lost are unknown, and can be added again."""
        return list(writer.accept(RecordStore(cls._loaded(path))))

    def problems(self) -> list[FactIndexError]:
        """An interrupted write, images added or removed behind the index's back, and rows that changed."""
        head = self._records.head()
        record, found, count = self._records.record(head), [], 0
        if head.writing:
            found.append(
                FactIndexError(f"A write to {self.place} is in progress or was interrupted; wait, or repeat it.")
            )
        for batch in read_all(self.connection, "", ["row", "sum", "model"]):
            count += len(batch)
            sums = row_sums(np.asarray([row["row"] for row in batch], np.float32))
            for row, sum_ in zip(batch, sums, strict=True):
                if f"{sum_:016x}" != row["sum"]:
                    found.append(self._damaged(row["id"]))
                if row["model"] not in record.models:
                    found.append(FactIndexError(f"{self.place} does not know the model of image {row['id']!r}."))
        if not head.writing and count != head.count:
            found.append(
                FactIndexError(f"{self.place} has {count} images instead of {head.count}; add them again from files.")
            )
        return found
