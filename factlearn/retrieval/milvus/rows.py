"""Images as rows of a Milvus collection.

row                     float32 [3D+3] (`factlearn.retrieval.rows`), flat inner-product index
id, path, fact, model   VARCHAR; fact is empty where unknown
texts, numbers          JSON: metadata as text, and the numbers that texts spell (`filter.py`)
file, sum               size, mtime and hash of the image file with its several facts, and the row's checksum
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from factlearn.errors import FactIndexError
from factlearn.retrieval.items import FACTS, FILE, METADATA, Images, metadata_of
from factlearn.retrieval.milvus.client import BATCH, Connection
from factlearn.retrieval.milvus.filter import BUILT_IN, metadata_key, one_of, stored
from factlearn.retrieval.rows import Keys, Rows, row_sums

_BATCH_BYTES = 8 << 20
_TEXT = 65_535
_JSON = ("texts", "numbers", "file")
FIELDS: dict[str, int | str] = {
    "id": _TEXT,
    "path": _TEXT,
    "fact": _TEXT,
    "model": 1024,
    "sum": 16,
    **dict.fromkeys(_JSON, "JSON"),
}
ITEM = (*BUILT_IN, "texts", "file")
ALL = (*ITEM, "row", "sum")


def stored_rows(images: Images, rows: Rows, model: str) -> Iterator[dict[str, Any]]:
    """Images, given also as rows, as the collection holds them."""
    columns = images.columns
    for place, (row, sum_) in enumerate(zip(rows, row_sums(rows), strict=True)):
        item = {name: column[place] for name, column in columns.items()}
        item["model"] = model
        yield {
            **{name: item[name] or "" for name in BUILT_IN},
            **stored(item, metadata_of(item)),
            "file": {name: item[name] for name in (*FILE, FACTS) if item.get(name) is not None},
            "sum": f"{sum_:016x}",
            "row": row,
        }


def write(connection: Connection, rows: Iterable[dict[str, Any]], told: Callable[[], None]) -> None:
    """Write rows, replacing those with the same ids, in requests of limited size; `told` is called before each."""
    count = 0
    for batch in _batches(rows):
        told()
        connection.call("upsert", connection.address.collection, batch)
        count += len(batch)
    if connection.address.file and count >= BATCH:  # keeps its log short
        connection.call("flush", connection.address.collection)


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        bytes_ = row["row"].nbytes + 4 * sum(len(str(row[name])) for name in ("id", "path", "fact", *_JSON))
        if batch and (size + bytes_ > _BATCH_BYTES or len(batch) == BATCH):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += bytes_
    if batch:
        yield batch


def item_of(row: dict[str, Any]) -> dict[str, Any]:
    """The item of an image, in the form and order common to all stores."""
    metadata = dict(sorted((METADATA + metadata_key(key), text) for key, text in row["texts"].items()))
    file = row.get("file", {})
    several = {FACTS: file[FACTS]} if FACTS in file else {}
    return {
        "id": row["id"],
        "path": row["path"],
        "fact": row["fact"] or None,
        **several,
        **{name: file.get(name) for name in FILE},
        **metadata,
        "model": row["model"],
    }


def column_of(name: str, rows: Sequence[dict[str, Any]]) -> Any:
    """A column of some images, for filters on the client's side."""
    import pyarrow as pa

    items = map(item_of, rows)
    if name == FACTS:
        return pa.chunked_array([pa.array([item.get(FACTS, item["fact"]) for item in items], pa.string())])
    key = name if name in BUILT_IN else METADATA + name.removeprefix(METADATA)
    return pa.chunked_array([pa.array([item.get(key) for item in items], pa.string())])


def as_keys(ids: Iterable[str]) -> Keys:
    """Ids as keys; as objects, since NumPy's own strings lose trailing NUL characters."""
    values = list(ids)
    keys = np.empty(len(values), object)
    keys[:] = values
    return keys


def read(connection: Connection, ids: Keys, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Some fields of images, in the order of the ids.

    Raises:
        FactIndexError: if an image was removed meanwhile.
    """
    for start in range(0, len(ids), BATCH):
        batch = list(ids[start : start + BATCH])
        found = connection.query(connection.address.collection, one_of(batch), ["id", *columns])
        rows = {row["id"]: row for row in found}
        for name in batch:
            if name not in rows:
                raise FactIndexError(f"{connection.address.place} no longer has the image {name!r}; open it again.")
            yield rows[name]


def read_all(connection: Connection, expression: str, columns: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
    """Some fields of all images that satisfy an expression, in batches sorted by id."""
    for ids in connection.ids(connection.address.collection, expression):
        for start in range(0, len(ids), BATCH):
            chosen = one_of(ids[start : start + BATCH])
            found = connection.query(connection.address.collection, chosen, ["id", *columns])
            yield sorted(found, key=itemgetter("id"))
