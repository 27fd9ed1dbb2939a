"""The store of indexes in Milvus: a server or cluster for more than one machine can hold, or a milvus-lite file.

An address is `milvus://host:port/collection` or `milvus:file.db/collection` (`client.py`). The collection has one row
per image (`rows.py`); a second one holds the index's own record (`record.py`). Answers equal those of an index folder.

Unlike a folder, a collection is not a snapshot: images that others add or remove are visible at once, facts and models
after `reload`. Only one process may write at a time; a second one is detected at the end of a write and reported.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
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
from factlearn.retrieval.milvus.client import BATCH, MOST, Address, Connection
from factlearn.retrieval.milvus.filter import BUILT_IN, implied, literal, one_of
from factlearn.retrieval.milvus.record import Head, Record, RecordStore
from factlearn.retrieval.milvus.rows import FIELDS, as_keys, column_of, item_of, read, read_all, stored_rows, upsert
from factlearn.retrieval.milvus.search import Search
from factlearn.retrieval.rows import Keys, Swept, row_sums, width_of
from factlearn.retrieval.stores import Store, store
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
        self._count = connection.count(self.collection)
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
        connection = Connection(Address.parse(path))
        records = RecordStore(connection)
        if not (records.exists and connection.has(connection.address.collection)):
            raise FactIndexError(
                f"{connection.address.place} is not an index (no such collection); build one with "
                "`factlearn index build`."
            )
        records.load()
        connection.call("load_collection", connection.address.collection)
        return cls._read(connection)

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
        cls,
        path: Path | str,
        images: Images,
        version: Version,
        facts: Sequence[Fact],
        language: LanguageSpace,
        *,
        overwrite: bool,
    ) -> Self:
        """Make an index; one that is overwritten is dropped first."""
        rows = list(stored_rows(images, version))
        connection = Connection(Address.parse(path), make=True)
        records, collection = RecordStore(connection), connection.address.collection
        records.make_room(overwrite=overwrite)
        empty = Record(dimension=language.dimension, language=language.fingerprint, facts=(), models={})
        try:
            records.make()  # first, so that what a killed process leaves behind is recognised as an index
            connection.create(collection, FIELDS, "row", width_of(language.dimension))
            record = empty.extended(images, rows, version, facts)
            parts = {"record": records.put_record(record, 0), "language": records.put_language(language, 0)}
            upsert(connection, rows)
            records.put_head(Head(count=connection.count(collection), writing=False, **parts))
        except BaseException:
            with suppress(FactIndexError):
                records.drop()
            raise
        return cls._read(connection)

    @classmethod
    def check_place(cls, path: Path | str, *, overwrite: bool) -> None:
        """Refuse a collection that is taken."""
        address = Address.parse(path)
        if address.file is None or address.file.exists():
            RecordStore(Connection(address)).check_place(overwrite=overwrite)

    def reload(self) -> Self:
        """The newest state."""
        return self._read(self.connection)

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
        return as_keys(name for batch in self.connection.ids(self.collection, found) for name in batch)

    def _filtered(self, where: Filter | None) -> str | tuple[str, ...]:
        """The expression for images that pass a filter; their ids if there is no such expression."""
        if where is None:
            return ""
        check_columns(where, [*BUILT_IN, *sorted(self.record.keys)])
        expression, exact = implied(where)
        if exact:
            return expression
        passed: list[str] = []
        for batch in read_all(self.connection, expression, [*BUILT_IN, "texts", "file"]):
            good = matching(where, lambda name, rows=batch: column_of(name, rows))  # type: ignore[misc]
            passed += [row["id"] for row, passes in zip(batch, good, strict=True) if passes]
        return tuple(passed)

    def take(self, keys: Keys) -> NDArray[np.float32]:
        """Rows by id, each checked."""
        rows = np.empty((len(keys), width_of(self.about.dimension)), np.float32)
        sums = np.empty(len(keys), np.uint64)
        for place, row in enumerate(read(self.connection, keys, ["row", "sum"])):
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
        return [item_of(row) for row in read(self.connection, keys, [*BUILT_IN, "texts", "file"])]

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
        return self._search.sweep(queries, count, self._expressions(where))

    def above(self, query: NDArray[np.float32], least: float, where: Filter | None) -> Keys:
        """The rows whose float32 inner product is at least `least`."""
        if not np.isfinite(least):
            return self.keys(where)
        return self._search.above(query, least, self._expressions(where))

    def _expressions(self, where: Filter | None) -> list[str]:
        """What passes a filter, as one expression per search."""
        found = self._passing(where)
        if isinstance(found, str):
            return [found]
        return [one_of(found[start : start + MOST]) for start in range(0, len(found), MOST)]

    # Changing and maintaining

    def add(self, images: Images, version: Version, facts: Iterable[Fact], language: LanguageSpace) -> None:
        """Store images, replacing those with the same ids."""
        rows = list(stored_rows(images, version))
        head = self._records.head()
        before = self._records.record(head)
        about = before.about()
        about.check_addition(self.place, version, language)
        language.learn_units(self._records.language(head))
        record = before.extended(images, rows, version, sorted({*about.facts, *facts}))
        head = self._begin(head, record, language if record.facts != before.facts else None)
        upsert(self.connection, rows)
        self._finish(head, record)

    def remove(self, ids: Collection[str]) -> int:
        """Remove images; returns how many there were."""
        wanted = sorted(ids)
        batches = (one_of(wanted[start : start + BATCH]) for start in range(0, len(wanted), BATCH))
        found = [row["id"] for chosen in batches for row in self.connection.query(self.collection, chosen, ["id"])]
        if not found:
            return 0
        if len(found) == self.connection.count(self.collection):
            raise FactIndexError(f"{self.place} would be left without images; drop the collection instead.")
        head = self._records.head()
        record = self._records.record(head)
        head = self._begin(head, record, None)
        self.connection.delete(self.collection, found)
        self._finish(head, record)
        return len(found)

    def _begin(self, head: Head, record: Record, language: LanguageSpace | None) -> Head:
        """Record that a write is in progress, and what the index will know."""
        generation = head.generation + 1
        changes: dict[str, Any] = {"generation": generation, "writing": True}
        changes["record"] = self._records.put_record(record, generation)
        if language is not None:
            changes["language"] = self._records.put_language(language, generation)
        return self._records.put_head(head.model_copy(update=changes))

    def _finish(self, head: Head, record: Record) -> None:
        """Record that a write is done, and forget models that no image is from any more."""
        if self._records.head().generation != head.generation:
            raise FactIndexError(f"{self.place} was written by another process meanwhile; repeat the change.")
        latest = max(record.models, key=lambda name: record.models[name].number)
        used = {
            name: entry
            for name, entry in record.models.items()
            if name == latest or self.connection.count(self.collection, f"model == {literal(name)}")
        }
        part = self._records.put_record(record.model_copy(update={"models": used}), head.generation + 1)
        count = self.connection.count(self.collection)
        changes = {"generation": head.generation + 1, "writing": False, "count": count, "record": part}
        self._records.put_head(head.model_copy(update=changes))

    def problems(self) -> list[FactIndexError]:
        """An interrupted write, images added or removed behind the index's back, and rows that changed."""
        head = self._records.head()
        record, found, count = self._records.record(head), [], 0
        if head.writing:
            found.append(FactIndexError(f"A write to {self.place} was interrupted; repeat the change."))
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
