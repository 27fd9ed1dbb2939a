"""What a Milvus index says about itself, in a small collection beside the images.

    head-G             the state of generation G, one row: the number of images, whether a write is in progress and
                       between which numbers of images it moves, and the name, number of pieces and SHA-256 of the two
                       parts below
    record-G/N         known facts, models, metadata keys, largest norms: JSON in pieces
    language-G/N       the saved language space: a zip in pieces
    lease-…            held by the process that writes (`lease.py`)

Pieces are written under the name of a new generation before its head, and the head of the highest generation counts;
so a reader sees the record before or after a change, never in between. No row is ever replaced, because a server that
is killed may bring a replaced row back. A head is flushed before what it says is relied upon: a server that is killed
forgets what it only acknowledged.
"""

import base64
import hashlib
import io
import json
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import ValidationError

from factlearn.errors import FactIndexError
from factlearn.facts import Fact
from factlearn.language import LanguageSpace
from factlearn.retrieval.about import About, Entry, ModelEntry, Version, with_version
from factlearn.retrieval.items import METADATA, Images
from factlearn.retrieval.milvus.client import Connection
from factlearn.retrieval.milvus.filter import between, one_of
from factlearn.retrieval.milvus.lease import PREFIX, Lease
from factlearn.retrieval.rows import Rows

VERSION = 1
_HEAD = "head"
_PIECE = 45_000  # bytes, 60,000 characters in base64; a VARCHAR holds 65,535
_FIELDS = {"name": 256, "content": 65_535}
_UNUSED = "unused"  # Milvus wants a vector in every collection


class Part(Entry):
    """Bytes stored in pieces."""

    name: str
    pieces: int
    sha256: str


class Head(Entry):
    """The state of the index; see above."""

    format: str = "factlearn index"
    version: int = VERSION
    generation: int = 0
    count: int = 0
    writing: bool = True
    least: int = 0
    most: int | None = None
    record: Part
    language: Part

    def allows(self, count: int) -> bool:
        """Whether this can be the number of images: the recorded one, or one that the write in progress passes."""
        if not self.writing:
            return count == self.count
        return self.least <= count and (self.most is None or count <= self.most)

    def during(self, *, removed: int = 0, written: int = 0, **changes: Any) -> Self:
        """The head while a write is in progress; an interrupted one before it may have left any number it passed.

        Until it is done, an image that it replaces may be there twice.
        """
        least, most = (self.least, self.most) if self.writing else (self.count, self.count)
        bounds = {"least": max(least - removed, 0), "most": None if most is None else most + written}
        return self.model_copy(update={"generation": self.generation + 1, "writing": True, **bounds, **changes})

    def after(self, count: int, record: Part) -> Self:
        """The head once the write is done."""
        changes = {"generation": self.generation + 1, "writing": False, "count": count, "record": record}
        return self.model_copy(update={**changes, "least": 0, "most": None})


class Record(Entry):
    """What the index knows about itself; see above."""

    dimension: int
    language: str
    facts: tuple[str, ...]
    models: dict[str, ModelEntry]
    keys: tuple[str, ...] = ()
    largest: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def about(self) -> About:
        """In the form common to all stores."""
        return About.of(self.dimension, self.language, self.facts, self.models)

    def extended(self, images: Images, rows: Rows) -> Self:
        """The record once the index holds more images, given also as rows."""
        norms = rows[:, -3:].max(axis=0)
        keys = {
            name.removeprefix(METADATA)
            for name, column in images.columns.items()
            if name.startswith(METADATA) and any(text is not None for text in column)
        }
        return self.model_copy(
            update={
                "keys": tuple(sorted({*self.keys, *keys})),
                "largest": tuple(map(float, np.maximum(self.largest, norms))),
            }
        )

    def knowing(self, version: Version, facts: Iterable[Fact]) -> Self:
        """The record once the index knows a model and facts."""
        return self.model_copy(update={"models": with_version(self.models, version), "facts": tuple(map(str, facts))})


class RecordStore:
    """The collection that holds the record."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.name = f"{connection.address.collection}_record"

    @property
    def exists(self) -> bool:
        """Whether there is one, complete or not; a collection of something else does not count."""
        if not self.connection.has(self.name):
            return False
        fields = self.connection.call("describe_collection", self.name)["fields"]
        return {field["name"] for field in fields} == {*_FIELDS, _UNUSED}

    def make_room(self, *, overwrite: bool) -> None:
        """Drop an index that may be overwritten and that no one writes; refuse a place that is taken otherwise."""
        self.check_place(overwrite=overwrite)
        if self.exists:
            self.load()
            with Lease(self):
                self.drop()

    def check_place(self, *, overwrite: bool) -> None:
        """Refuse a place that is taken, unless by an index and `overwrite` is set."""
        place = self.connection.address.place
        if self.exists:
            if not overwrite:
                raise FactIndexError(
                    f"{place} is already an index; replace it with --overwrite, or choose another place."
                )
        elif self.connection.has(self.connection.address.collection) or self.connection.has(self.name):
            raise FactIndexError(f"{place} already exists and is not an index; choose another place.")

    def check_empty(self) -> None:
        """Refuse to fill an index that another process has made meanwhile."""
        if self._heads():
            raise FactIndexError(f"{self.connection.address.place} was made by another process meanwhile; open it.")

    def drop(self) -> None:
        """Drop the collections of images and of the record."""
        for name in (self.connection.address.collection, self.name):
            if self.connection.has(name):
                self.connection.call("drop_collection", name)

    def make(self) -> None:
        """Make the collection."""
        self.connection.create(self.name, _FIELDS, _UNUSED, 2)

    def load(self) -> None:
        """Let Milvus load it into memory."""
        self.connection.load(self.name)

    def head(self) -> Head:
        """The newest state.

        Raises:
            FactIndexError: if there is none, or its version is unknown.
        """
        place = self.connection.address.place
        heads = self._heads()
        if not heads:
            raise FactIndexError(f"{place} was not written completely; build it again and allow overwriting it.")
        try:
            body = max(map(json.loads, heads), key=lambda each: int(each["generation"]))
            if body["version"] != VERSION:
                raise FactIndexError(
                    f"{place} is an index of version {body['version']}, this factlearn needs version {VERSION}; "
                    "use the version that wrote it, or build it again."
                )
            return Head.model_validate(body)
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            raise self._damaged() from error

    def record(self, head: Head) -> Record:
        """The record of a state."""
        try:
            return Record.model_validate_json(self._get(head.record))
        except ValidationError as error:
            raise self._damaged() from error

    def language(self, head: Head) -> LanguageSpace:
        """The language space of a state."""
        content = self._get(head.language)
        with tempfile.TemporaryDirectory() as folder:
            zipfile.ZipFile(io.BytesIO(content)).extractall(folder)
            return LanguageSpace.load(Path(folder))

    def put_head(self, head: Head) -> Head:
        """Make `head` the state, to last."""
        self.put({_head_name(head): head.model_dump_json()})
        self.connection.flush(self.name)
        return head

    def sweep_up(self, head: Head) -> None:
        """Delete pieces that a state does not refer to."""
        kept = {_head_name(head), *_names(head.record), *_names(head.language)}
        written = [name for batch in self.connection.ids(self.name, "", "name") for name in batch]
        self.forget([name for name in written if name not in kept and not name.startswith(PREFIX)])

    def put_record(self, record: Record, generation: int) -> Part:
        """Write a record that no state refers to yet."""
        return self._put(f"record-{generation}", record.model_dump_json().encode())

    def put_language(self, language: LanguageSpace, generation: int) -> Part:
        """Write a language space that no state refers to yet."""
        content = io.BytesIO()
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            language.save(Path(folder))
            for file in sorted(Path(folder).iterdir()):
                archive.write(file, file.name)
        return self._put(f"language-{generation}", content.getvalue())

    def _put(self, name: str, content: bytes) -> Part:
        pieces = [content[start : start + _PIECE] for start in range(0, len(content), _PIECE)]
        part = Part(name=name, pieces=len(pieces), sha256=hashlib.sha256(content).hexdigest())
        for key, piece in zip(_names(part), pieces, strict=True):
            self.put({key: base64.b64encode(piece).decode()})
        return part

    def _get(self, part: Part) -> bytes:
        for strong in (False, True):  # the head was read strongly, so that most servers have seen its pieces as well
            names = _names(part)
            rows: dict[str, str] = {}
            for start in range(0, len(names), 100):
                rows |= self._read(names[start : start + 100], strong=strong)
            content = b"".join(base64.b64decode(rows.get(name, "")) for name in names)
            if hashlib.sha256(content).hexdigest() == part.sha256:
                return content
        raise self._damaged()

    def put(self, contents: dict[str, str]) -> None:
        """Write rows."""
        rows = [{"name": name, "content": text, _UNUSED: [0.0, 0.0]} for name, text in contents.items()]
        self.connection.call("upsert", self.name, rows)

    def forget(self, names: Sequence[str], within: float | None = None) -> None:
        """Delete rows."""
        self.connection.delete(self.name, names, "name", within)

    def leases(self) -> dict[str, str]:
        """The rows of all writers, as of now."""
        return self._query(between("", PREFIX, PREFIX + "~", "name"), strong=True)

    def _heads(self) -> list[str]:
        """The states of all generations that are there, as of now; all but the newest are left over."""
        return list(self._query(between("", _HEAD, _HEAD + "~", "name"), strong=True).values())

    def _read(self, names: list[str], *, strong: bool) -> dict[str, str]:
        return self._query(one_of(names, "name"), strong=strong)

    def _query(self, expression: str, *, strong: bool) -> dict[str, str]:
        rows = self.connection.query(self.name, expression, ["name", "content"], strong=strong)
        return {row["name"]: row["content"] for row in rows}

    def _damaged(self) -> FactIndexError:
        place = self.connection.address.place
        return FactIndexError(f"The record of {place} ({self.name}) is damaged; build the index again.")


def _head_name(head: Head) -> str:
    return f"{_HEAD}-{head.generation:09d}"


def _names(part: Part) -> list[str]:
    return [f"{part.name}/{number}" for number in range(part.pieces)]
