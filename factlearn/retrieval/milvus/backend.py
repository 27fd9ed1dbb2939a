"""A fact index in Milvus: a server or cluster that holds more than one machine can, or a milvus-lite file.

An address is `milvus://host:port/collection` or `milvus:file.db/collection` (`milvus_client.py`). The collection has a
row an image (`milvus_rows.py`); a second one holds the index's own record (`milvus_record.py`). Answers are those of an
index folder (`milvus_store.py`).

Unlike a folder a collection is no snapshot: images that others add or remove are seen at once, facts and versions after
`reload`. One process may write at a time; a second one is noticed at the end of a write and told so.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from factlearn.errors import FactIndexError
from factlearn.facts import Fact
from factlearn.language import LanguageSpace
from factlearn.retrieval.folder.segments import row_sums
from factlearn.retrieval.milvus.client import BATCH, Address, Connection
from factlearn.retrieval.milvus.filter import literal, one_of
from factlearn.retrieval.milvus.record import Head, Record, RecordStore
from factlearn.retrieval.milvus.rows import FIELDS, stored_rows, upsert
from factlearn.retrieval.milvus.search import MilvusStore
from factlearn.retrieval.store import Images, Version


class MilvusBackend(MilvusStore):
    """Opens, makes and changes indexes in Milvus."""

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """The state an index is in.

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
        """Make an index; one that is overwritten goes first."""
        rows = list(stored_rows(images, version))
        connection = Connection(Address.parse(path), make=True)
        records, collection = RecordStore(connection), connection.address.collection
        _clear_place(connection, records, overwrite=overwrite)
        empty = Record(
            dimension=language.dimension, language=language.fingerprint, facts=tuple(map(str, facts)), models={}
        )
        try:
            records.make()  # first, so that what a killed process leaves is known to be an index
            connection.create(collection, FIELDS, "row", 3 * language.dimension + 3)
            record = _extended(empty, images, rows, version, facts)
            parts = {"record": records.put_record(record, 0), "language": records.put_language(language, 0)}
            upsert(connection, rows)
            records.put_head(Head(count=connection.count(collection), writing=False, **parts))
        except BaseException:
            with suppress(FactIndexError):
                _drop(connection, records)
            raise
        return cls._read(connection)

    @property
    def _records(self) -> RecordStore:
        return RecordStore(self.connection)

    def load_language(self) -> LanguageSpace:
        """The language space saved with the index."""
        return self._records.language(self._records.head())

    def reload(self) -> "MilvusBackend":
        """The newest state."""
        return self._read(self.connection)

    def add(self, images: Images, version: Version, facts: Iterable[Fact], language: LanguageSpace) -> None:
        """Store images, in place of those with the same ids."""
        rows = list(stored_rows(images, version))
        head = self._records.head()
        before = self._records.record(head)
        about = before.about()  # others may have written since this was opened
        if about.language != language.fingerprint:
            raise FactIndexError(f"{self.place} is now of the language space {about.language}; open it again.")
        about.check_version(self.place, version)
        language.learn_units(self._records.language(head))
        record = _extended(before, images, rows, version, sorted({*about.facts, *facts}))
        head = self._change(head, record, language if record.facts != before.facts else None)
        upsert(self.connection, rows)
        self._finish(head, record)

    def remove(self, ids: Collection[str]) -> int:
        """Forget images; how many there were."""
        wanted = sorted(ids)
        batches = (one_of(wanted[start : start + BATCH]) for start in range(0, len(wanted), BATCH))
        found = [row["id"] for chosen in batches for row in self.connection.query(self.collection, chosen, ["id"])]
        if not found:
            return 0
        if len(found) == self.connection.count(self.collection):
            raise FactIndexError(f"{self.place} would be left without images; drop the collection instead.")
        head = self._records.head()
        record = self._records.record(head)
        head = self._change(head, record, None)
        self.connection.delete(self.collection, found)
        self._finish(head, record)
        return len(found)

    def _change(self, head: Head, record: Record, language: LanguageSpace | None) -> Head:
        """Say that a write is under way, and what the index will know."""
        generation = head.generation + 1
        changes: dict[str, Any] = {"generation": generation, "writing": True}
        changes["record"] = self._records.put_record(record, generation)
        if language is not None:
            changes["language"] = self._records.put_language(language, generation)
        return self._records.put_head(head.model_copy(update=changes))

    def _finish(self, head: Head, record: Record) -> None:
        """Say that a write is done, and forget versions that no image is of any more."""
        if self._records.head().generation != head.generation:
            raise FactIndexError(f"{self.place} was written by another process meanwhile; make the change once more.")
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
        """A write that was cut short, images lost or gained outside it, and rows that changed."""
        head = self._records.head()
        record, found, count = self._records.record(head), [], 0
        if head.writing:
            found.append(FactIndexError(f"A write to {self.place} was cut short; make the change once more."))
        for batch in self.batches("", ["row", "sum", "model"]):
            count += len(batch)
            sums = row_sums(np.asarray([row["row"] for row in batch], np.float32))
            for row, sum_ in zip(batch, sums, strict=True):
                if f"{sum_:016x}" != row["sum"]:
                    found.append(self.damaged(row["id"]))
                if row["model"] not in record.models:
                    found.append(FactIndexError(f"{self.place} does not know the model of image {row['id']!r}."))
        if not head.writing and count != head.count:
            found.append(
                FactIndexError(f"{self.place} has {count} images instead of {head.count}; add them again from files.")
            )
        return found


def _clear_place(connection: Connection, records: RecordStore, *, overwrite: bool) -> None:
    """Make room for an index."""
    place = connection.address.place
    if records.exists:
        if not overwrite:
            raise FactIndexError(f"{place} is an index already; choose another place, or allow overwriting it.")
        _drop(connection, records)
    elif connection.has(connection.address.collection) or connection.has(records.name):
        raise FactIndexError(f"{place} exists already and is not an index; choose another place.")


def _drop(connection: Connection, records: RecordStore) -> None:
    for name in (connection.address.collection, records.name):
        if connection.has(name):
            connection.call("drop_collection", name)


def _extended(
    record: Record, images: Images, rows: Sequence[dict[str, Any]], version: Version, facts: Iterable[Fact]
) -> Record:
    """What the index knows once it has more images."""
    models = dict(record.models)
    if version.fingerprint not in models:
        number = 1 + max((entry.number for entry in models.values()), default=-1)
        models[version.fingerprint] = version.entry(number)
    norms = np.stack([row["row"][-3:] for row in rows]).max(axis=0)
    keys = {key for entry in images.more() for key, text in entry.items() if text is not None}
    return record.model_copy(
        update={
            "models": models,
            "facts": tuple(map(str, facts)),
            "keys": tuple(sorted({*record.keys, *keys})),
            "largest": tuple(map(float, np.maximum(record.largest, norms))),
        }
    )
