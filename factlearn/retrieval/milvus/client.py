"""The connection to Milvus: every call has a time limit, and what goes wrong is one sentence.

A call that fails because the server is away, starting or moving data is repeated, with pauses that double from 50 ms to
2 s, until the time limit of the address has passed. All calls are safe to repeat: rows are written and deleted by id.

Consistency: reads see this process's own writes at once (Milvus's *Session*), those of others after some 100 ms. Where
that is not enough, `strong=True` waits until the server has seen everything that was acknowledged before, which takes
up to a second.
"""

import logging
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from factlearn.errors import FactIndexError
from factlearn.progress import say
from factlearn.retrieval.milvus.address import Address
from factlearn.retrieval.milvus.errors import is_away, is_passing, sentence
from factlearn.retrieval.milvus.filter import between, one_of

MOST = 16_384  # rows in one answer from Milvus
BATCH = 1000  # rows in one request
_ATTEMPT = 60.0  # seconds of one attempt at a call; a lease lasts longer
_FLUSH = 1800.0  # seconds to wait for what was written to be on disk
_LOAD = 1800.0  # seconds to wait for a collection to be in memory
_SILENT = 3.0  # seconds before it is said what is waited for
_PAUSES = (0.05, 2.0)


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
        options: dict[str, Any] = {"grpc_options": {"grpc.max_reconnect_backoff_ms": 2000}, **dict(address.tls)}
        options["dedicated"] = not file  # pymilvus would share a connection that is not encrypted with one that must be
        self._client: Any = self._patiently(
            "open",
            lambda timeout: MilvusClient(address.uri, token=address.token, timeout=timeout, **options),
            address.timeout,
        )
        if not file:
            weakref.finalize(self, self._client.close)

    def _patiently(self, what: str, attempt: Any, limit: float, told: Callable[[], None] | None = None) -> Any:
        """Try until it works, the failure is not one that passes, or the time limit is over.

        A server that is away is waited for no longer than the address says, whatever it was asked for; `told` is called
        between two attempts.
        """
        from grpc import RpcError
        from pymilvus.exceptions import MilvusException

        began = time.monotonic()
        pause, longest = _PAUSES
        while True:
            left = began + limit - time.monotonic()
            try:
                return attempt(max(min(left, self.address.timeout, _ATTEMPT), 0.1))
            except (MilvusException, RpcError, OSError, ValueError) as error:
                limit = min(limit, self.address.timeout) if is_away(error) else limit
                if not is_passing(error) or self.address.file or time.monotonic() + pause > began + limit:
                    raise FactIndexError(sentence(self.address, what, error, limit)) from error
            if told:
                told()
            time.sleep(pause)
            pause = min(2 * pause, longest)

    def call(
        self,
        verb: str,
        *arguments: Any,
        within: float | None = None,
        told: Callable[[], None] | None = None,
        **options: Any,
    ) -> Any:
        """Call a method of pymilvus's client."""
        method = getattr(self._client, verb)
        return self._patiently(
            verb.replace("_", " "),
            lambda timeout: method(*arguments, timeout=timeout, **options),
            within or self.address.timeout,
            told,
        )

    @property
    def finds_substrings(self) -> bool:
        """Whether `like` may begin with %: servers before 2.4 know prefixes only."""
        if self.address.file:
            return True
        version = str(self.call("get_server_version")).removeprefix("v").split(".")
        return [int(part) if part.isdigit() else 0 for part in version[:2]] >= [2, 4]

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
        self.load(collection)

    def load(self, collection: str) -> None:
        """Have Milvus load a collection into memory, where it must be to be read; says what is waited for."""
        self.call("load_collection", collection, _async=True)
        began, told = time.monotonic(), -_SILENT
        while True:
            found = self.call("get_load_state", collection)
            if str(found["state"].name) == "Loaded":
                return
            waited = time.monotonic() - began
            if waited > _LOAD:
                raise FactIndexError(
                    f"{self.address.place} was not loaded by the server within {waited:.0f} s; check the server's log."
                )
            if waited - told > 10 and waited > _SILENT:
                told = waited
                say(f"{self.address.place}: waiting for the server to load {collection} ({found.get('progress', 0)} %)")
            time.sleep(0.2)

    def flush(self, collection: str, told: Callable[[], None] | None = None) -> None:
        """Have a server write to disk what it was given; what it only acknowledged is lost if it is killed.

        A milvus-lite file keeps a log of its own. `told` is called while that takes long.
        """
        if not self.address.file:
            self.call("flush", collection, within=_FLUSH, told=told)

    def query(
        self,
        collection: str,
        expression: str,
        columns: Sequence[str],
        limit: int | None = None,
        *,
        strong: bool = False,
    ) -> list[Any]:
        """Some fields of the rows that satisfy an expression; give a limit unless there are few."""
        options: dict[str, Any] = {"limit": limit} if limit is not None else {}
        return list(
            self.call(
                "query",
                collection,
                filter=expression,
                output_fields=list(columns),
                consistency_level="Strong" if strong else "Session",
                **options,
            )
        )

    def count(self, collection: str, expression: str = "", *, strong: bool = False) -> int:
        """The number of rows that satisfy an expression."""
        return int(self.query(collection, expression, ["count(*)"], strong=strong)[0]["count(*)"])

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

    def delete(self, collection: str, ids: Sequence[str], key: str = "id", within: float | None = None) -> None:
        """Remove rows by id."""
        for start in range(0, len(ids), BATCH):
            self.call("delete", collection, filter=one_of(ids[start : start + BATCH], key), within=within)
