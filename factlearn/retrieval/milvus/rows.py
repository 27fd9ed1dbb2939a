"""Images as rows of a Milvus collection.

row                     float32 [3D+3] in the searched form (`search.py`), flat inner-product index
id, path, fact, model   VARCHAR; fact is empty where unknown
texts, numbers          JSON: metadata as text, and the numbers that texts spell (`milvus_filter.py`)
file, sum               what the image's file looked like, and the row's checksum
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from factlearn.retrieval.folder.segments import METADATA, items_table, row_sums
from factlearn.retrieval.milvus.client import BATCH, Connection
from factlearn.retrieval.milvus.filter import BUILT_IN, metadata_key, stored
from factlearn.retrieval.search import Keys, pack
from factlearn.retrieval.store import Images, Version

_BATCH_BYTES = 8 << 20
_TEXT = 65_535
_JSON = ("texts", "numbers", "file")
_FILE = ("bytes", "modified", "sha256")
FIELDS: dict[str, int | str] = {
    "id": _TEXT,
    "path": _TEXT,
    "fact": _TEXT,
    "model": 1024,
    "sum": 16,
    **dict.fromkeys(_JSON, "JSON"),
}


def stored_rows(images: Images, version: Version) -> Iterator[dict[str, Any]]:
    """Images as the collection holds them."""
    rows, columns = pack(images.vectors), images.columns()
    items_table(columns, images.more())  # refuses what is not text
    for place, (row, sum_, more) in enumerate(zip(rows, row_sums(rows), images.more(), strict=True)):
        item = {name: column[place] for name, column in columns.items()}
        item["model"] = version.fingerprint
        yield {
            **{name: item[name] or "" for name in BUILT_IN},
            **stored(item, more),
            "file": {name: item[name] for name in _FILE if item[name] is not None},
            "sum": f"{sum_:016x}",
            "row": row,
        }


def upsert(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows in requests that are not too large."""
    batch: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        bytes_ = row["row"].nbytes + 4 * sum(len(str(row[name])) for name in ("id", "path", "fact", *_JSON))
        if batch and (size + bytes_ > _BATCH_BYTES or len(batch) == BATCH):
            connection.call("upsert", connection.address.collection, batch)
            batch, size = [], 0
        batch.append(row)
        size += bytes_
    connection.call("upsert", connection.address.collection, batch)
    if connection.address.file and len(rows) >= BATCH:  # a server does so by itself
        connection.call("flush", connection.address.collection)


def item_of(row: dict[str, Any]) -> dict[str, Any]:
    """What is stored of an image, as every backend says it."""
    metadata = {METADATA + metadata_key(key): text for key, text in row["texts"].items()}
    files = {name: row.get("file", {}).get(name) for name in _FILE}
    return {
        "id": row["id"],
        "path": row["path"],
        "fact": row["fact"] or None,
        **files,
        **metadata,
        "model": row["model"],
    }


def column_of(name: str, rows: Sequence[dict[str, Any]]) -> Any:
    """A column of some images, as filters on the client's side take it."""
    import pyarrow as pa

    items = map(item_of, rows)
    key = name if name in BUILT_IN else METADATA + name.removeprefix(METADATA)
    return pa.chunked_array([pa.array([item.get(key) for item in items], pa.string())])


def as_keys(ids: Iterable[str]) -> Keys:
    """Ids as keys; as objects, since NumPy's own texts lose zeros at their end."""
    values = list(ids)
    keys = np.empty(len(values), object)
    keys[:] = values
    return keys
