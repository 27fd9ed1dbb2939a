"""The address of a Milvus index, and the connection to it.

    milvus://HOST:PORT/COLLECTION                  a server; the default port is 19530
    milvus://USER:PASSWORD@HOST:PORT/COLLECTION    with a user name and password; TOKEN@HOST with a token
    milvus:FOLDER/FILE.db/COLLECTION               a milvus-lite file on this machine

If the address has no credentials, the environment variable MILVUS_TOKEN is used, if set. `?tls=true` at the end of a
server's address encrypts the connection.
"""

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from factlearn.errors import FactIndexError
from factlearn.retrieval.milvus.filter import between, one_of

PORT = 19530
MOST = 16_384  # rows in one answer from Milvus
BATCH = 1000  # rows in one request
_PATIENCE = 10.0
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,240}")
_FORMS = "write milvus://host:port/collection or milvus:path/to/file.db/collection"


@dataclass(frozen=True)
class Address:
    """The address of an index.

    Attributes:
        uri: for pymilvus.
        collection: of the images; that of the index's record has the suffix `_record`.
        place: the address without secrets.
        token: the credentials, if any.
    """

    uri: str
    collection: str
    place: str
    token: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: Path | str) -> Self:
        """Parse an address.

        Raises:
            FactIndexError: if it is malformed.
        """
        rest = str(text).removeprefix("milvus:")
        found = cls._server(rest) if rest.startswith("//") else cls._file(rest)
        if not _NAME.fullmatch(found.collection):
            raise FactIndexError(
                f"{found.collection!r} is not a Milvus collection name; use letters, digits and _, a letter first."
            )
        return found

    @classmethod
    def _server(cls, rest: str) -> Self:
        try:
            parts = urlsplit(f"milvus:{rest}")
            host, port = parts.hostname, parts.port or PORT
        except ValueError:
            host, port = None, PORT
        if not host:
            raise FactIndexError(f"The address of the Milvus index names no host; {_FORMS}.")
        secret = unquote(parts.netloc.rpartition("@")[0]) or os.environ.get("MILVUS_TOKEN", "")
        tls = parse_qs(parts.query).get("tls") == ["true"]
        host = f"[{host}]" if ":" in host else host
        collection = parts.path.strip("/")
        place = f"milvus://{host}:{port}/{collection}{'?tls=true' if tls else ''}"
        return cls(f"{'https' if tls else 'http'}://{host}:{port}", collection, place, secret)

    @classmethod
    def _file(cls, rest: str) -> Self:
        file, _, collection = rest.rpartition("/")
        if not file.endswith(".db"):
            raise FactIndexError(f"milvus:{rest} names no .db file and collection; {_FORMS}.")
        return cls(str(Path(file).absolute()), collection, f"milvus:{rest}")

    @property
    def file(self) -> Path | None:
        """The milvus-lite file, unless it is a server."""
        return None if "://" in self.uri else Path(self.uri)


class Connection:
    """A Milvus client that raises `FactIndexError`."""

    def __init__(self, address: Address, *, make: bool = False) -> None:
        self.address = address
        file = address.file
        if file and not file.exists():
            if not make:
                raise FactIndexError(f"{address.place} is not an index ({file} does not exist); build one first.")
            file.parent.mkdir(parents=True, exist_ok=True)
        try:
            from pymilvus import MilvusClient

            if file:
                import milvus_lite  # noqa: F401
        except ImportError as error:
            raise FactIndexError(
                f"{address.place} needs {error.name}, which is not installed; run `pip install 'factlearn[milvus]'`."
            ) from error
        for name in ("pymilvus", "milvus_lite"):  # they log each error that they raise
            logging.getLogger(name).setLevel(logging.CRITICAL)
        with self._errors("opened"):
            self._client: Any = MilvusClient(address.uri, token=address.token, timeout=_PATIENCE)

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        import grpc
        from pymilvus.exceptions import MilvusException

        try:
            yield
        except (MilvusException, grpc.RpcError, OSError, ValueError) as error:
            reason = str(getattr(error, "message", None) or error).strip().splitlines()[0].rstrip(".")
            hint = " (does another process hold the file?)" if self.address.file and what == "opened" else ""
            raise FactIndexError(
                f"{self.address.place} could not be {what}: {reason}{hint}; check the address and the server."
            ) from error

    def call(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of pymilvus's client."""
        with self._errors(f"asked to {verb.replace('_', ' ')}"):
            return getattr(self._client, verb)(*arguments, **options)

    def has(self, collection: str) -> bool:
        """Whether there is such a collection."""
        return bool(self.call("has_collection", collection))

    def create(self, collection: str, fields: Mapping[str, Any], vector: str, dimension: int) -> None:
        """Make a collection of VARCHAR (given by length) and other fields with a flat inner-product index."""
        from pymilvus import DataType, MilvusClient

        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        for number, (name, kind) in enumerate(fields.items()):
            if isinstance(kind, int):
                schema.add_field(name, DataType.VARCHAR, max_length=kind, is_primary=number == 0)
            else:
                schema.add_field(name, getattr(DataType, kind))
        schema.add_field(vector, DataType.FLOAT_VECTOR, dim=dimension)
        index = self._client.prepare_index_params()
        index.add_index(vector, index_type="FLAT", index_name=vector, metric_type="IP")
        self.call("create_collection", collection, schema=schema, consistency_level="Strong")
        self.call("create_index", collection, index, sync=False)  # there is nothing to wait for yet
        self.call("load_collection", collection)

    def query(self, collection: str, expression: str, columns: Sequence[str], limit: int | None = None) -> list[Any]:
        """Some fields of the rows that satisfy an expression; give a limit unless there are few."""
        options = {} if limit is None else {"limit": limit}
        return list(
            self.call(
                "query",
                collection,
                filter=expression,
                output_fields=list(columns),
                consistency_level="Strong",
                **options,
            )
        )

    def count(self, collection: str, expression: str = "") -> int:
        """The number of rows that satisfy an expression."""
        return int(self.query(collection, expression, ["count(*)"])[0]["count(*)"])

    def ids(self, collection: str, expression: str, key: str = "id") -> Iterator[list[str]]:
        """All ids of rows that satisfy an expression, sorted, in batches.

        A range of ids with more rows than Milvus returns at once is halved. pymilvus's own iterator does not quote ids.
        """
        ranges: list[tuple[str | None, str | None]] = [(None, None)]
        while ranges:
            low, high = ranges.pop()
            found = self.query(collection, between(expression, low, high, key), [key], MOST)
            names = sorted(row[key] for row in found)
            if len(names) < MOST:
                yield names
            else:
                middle = names[len(names) // 2]
                ranges += [(middle, high), (low, middle)]

    def delete(self, collection: str, ids: Sequence[str], key: str = "id") -> None:
        """Remove rows by id."""
        for start in range(0, len(ids), BATCH):
            self.call("delete", collection, filter=one_of(ids[start : start + BATCH], key))
