"""Changes to an index in Milvus, each made by the one process that holds the lease.

A change is recorded before the first image is written and after the last, each time flushed to the server's disk; what
happens in between, a kill of either side included, leaves an index that is readable and says that a write was
interrupted. The same change, made again, completes it.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from factlearn.errors import FactIndexError
from factlearn.facts import Fact
from factlearn.language import LanguageSpace
from factlearn.progress import say
from factlearn.retrieval.about import About, Version
from factlearn.retrieval.items import Images
from factlearn.retrieval.milvus.address import Address
from factlearn.retrieval.milvus.client import BATCH, Connection
from factlearn.retrieval.milvus.filter import literal, one_of
from factlearn.retrieval.milvus.lease import Lease
from factlearn.retrieval.milvus.record import Head, Record, RecordStore
from factlearn.retrieval.milvus.rows import FIELDS, ITEM, as_keys, item_of, read, stored_rows, write
from factlearn.retrieval.milvus.whole import Guard
from factlearn.retrieval.rows import pack, width_of
from factlearn.retrieval.stores import Part


def make(
    address: Address, about: About, language: LanguageSpace, parts: Iterable[Part], *, overwrite: bool
) -> Connection:
    """Make an index; one that is overwritten is dropped first."""
    rest = iter(parts)
    first = next(rest)
    pack(first[0].vectors)  # refuse images that cannot be stored before an index is dropped for them
    connection = Connection(address, make=True)
    records = RecordStore(connection)
    records.make_room(overwrite=overwrite)
    records.make()  # first, so that what a killed process leaves behind is recognised as an index
    with Lease(records) as lease:
        records.check_empty()
        try:
            _fill(records, about, language, itertools.chain([first], rest), lease)
        except BaseException:
            with suppress(FactIndexError):
                records.drop()
            raise
    return connection


def _fill(records: RecordStore, about: About, language: LanguageSpace, parts: Iterable[Part], lease: Lease) -> None:
    """Write the collection of images, then the record."""
    connection, collection, count = records.connection, records.connection.address.collection, 0
    facts, models = tuple(map(str, about.facts)), dict(about.models)
    record = Record(dimension=about.dimension, language=about.language, facts=facts, models=models)
    connection.create(collection, FIELDS, "row", width_of(about.dimension))
    for images, model in parts:
        rows = pack(images.vectors)
        record = record.extended(images, rows)
        write(connection, stored_rows(images, rows, model), lease.renew)
        count += len(rows)
    connection.flush(collection, lease.renew)
    pieces = {"record": records.put_record(record, 0), "language": records.put_language(language, 0)}
    head = Head(count=count, writing=False, **pieces)
    Guard(records, head, fixed=True).count()
    lease.check()
    records.put_head(head)


@contextmanager
def _changing(records: RecordStore) -> Iterator["_Change"]:
    """Be the only writer within a `with` block."""
    with Lease(records) as lease:
        yield _Change(records, lease)


class _Change:
    """One change; when it is made, all that others have written is seen.

    Attributes:
        head, record: the present state.
        count: the number of images.
    """

    def __init__(self, records: RecordStore, lease: Lease) -> None:
        self.records = records
        self.lease = lease
        self.connection = records.connection
        self.collection = records.connection.address.collection
        self.head = records.head()
        self.record = records.record(self.head)
        self.count = Guard(records, self.head).count(strong=True)

    def present(self, ids: Sequence[str]) -> list[str]:
        """Those of some ids that the index has."""
        batches = (one_of(ids[start : start + BATCH]) for start in range(0, len(ids), BATCH))
        return [row["id"] for chosen in batches for row in self.connection.query(self.collection, chosen, ["id"])]

    def begin(self, record: Record, language: LanguageSpace | None = None, **change: int) -> None:
        """Record that a write is in progress, and what the index will know.

        Args:
            record: the new one.
            language: the new language space, if there are new facts.
            change: how many images are `written`, `added` (the others are replaced) or `removed`.
        """
        generation = self.head.generation + 1
        parts: dict[str, Any] = {"record": self.records.put_record(record, generation)}
        if language is not None:
            parts["language"] = self.records.put_language(language, generation)
        self.record = record
        self._interrupted = self.head.writing
        self.count += change.pop("added", 0) - change.get("removed", 0)
        self.head = self.records.put_head(self.head.during(**change, **parts))

    def finish(self) -> None:
        """Record that a write is done and on disk, and forget models that no image is from any more."""
        self.connection.flush(self.collection, self.lease.renew)
        if self._interrupted:  # what was counted before may include images that were there twice
            Guard(self.records, self.head, fixed=True).count()
            self.count = sum(map(len, self.connection.ids(self.collection, "")))
        done = self.head.after(self.count, self.head.record)
        Guard(self.records, done, fixed=True).count()
        models = self.record.models
        latest = max(models, key=lambda name: models[name].number)
        used = {
            name: entry
            for name, entry in models.items()
            if name == latest or self.connection.count(self.collection, f"model == {literal(name)}")
        }
        part = self.records.put_record(self.record.model_copy(update={"models": used}), self.head.generation + 1)
        self.lease.check()
        self.records.sweep_up(self.records.put_head(self.head.after(self.count, part)))


def add(records: RecordStore, images: Images, version: Version, facts: Iterable[Fact], language: LanguageSpace) -> None:
    """Store images, replacing those with the same ids."""
    rows = pack(images.vectors)
    stored = stored_rows(images, rows, version.fingerprint)
    with _changing(records) as change:
        about = change.record.about()
        about.check_addition(records.connection.address.place, version, language)
        language.learn_units(records.language(change.head))
        record = change.record.extended(images, rows).knowing(version, sorted({*about.facts, *facts}))
        grown = language if record.facts != change.record.facts else None
        new = len(rows) - len(change.present(images.ids))
        change.begin(record, grown, written=len(rows), added=new)
        write(change.connection, stored, change.lease.renew)
        change.finish()


def remove(records: RecordStore, ids: Collection[str]) -> int:
    """Remove images; returns how many there were."""
    with _changing(records) as change:
        found = change.present(sorted(ids))
        if not found:
            return 0
        if len(found) == change.count:
            place = records.connection.address.place
            raise FactIndexError(f"{place} would be left without images; drop the collection instead.")
        change.begin(change.record, removed=len(found))
        change.connection.delete(change.collection, found)
        change.finish()
    return len(found)


def accept(records: RecordStore) -> list[dict[str, Any]]:
    """Record the images that are there as all there are, if that is not so already.

    Returns:
        Items of images that were there twice, the old one beside that which replaced it, and are now removed.
    """
    connection = records.connection
    collection, place = connection.address.collection, connection.address.place
    with Lease(records) as lease:
        head = records.head()
        with suppress(FactIndexError):  # the server may only be loading them
            Guard(records, head).count(strong=True)
        count = connection.count(collection, strong=True)
        if not head.writing and count == head.count:
            return []
        say(f"{place}: {count:,} images are there, {head.count:,} were recorded")
        twice = list(_twice(connection, collection))
        items = [item_of(row) for row in read(connection, as_keys(twice), ITEM)]
        connection.delete(collection, twice)
        connection.flush(collection, lease.renew)
        part = records.put_record(records.record(head), head.generation + 1)
        lease.check()
        records.sweep_up(records.put_head(head.after(connection.count(collection), part)))
    return items


def _twice(connection: Connection, collection: str) -> Iterator[str]:
    """The ids of images that are there more than once, which only counting shows."""
    for ids in connection.ids(collection, ""):
        pending = [ids[start : start + BATCH] for start in range(0, len(ids), BATCH)]
        while pending:
            part = pending.pop()
            if connection.count(collection, one_of(part)) == len(part):
                continue
            if len(part) == 1:
                yield part[0]
            else:
                pending += [part[: len(part) // 2], part[len(part) // 2 :]]
