"""Chosen images as a list or as files, for other programs and for people."""

import csv
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import IO, Any

from factlearn import places
from factlearn.errors import FactIndexError, FactlearnError
from factlearn.retrieval.items import metadata_of

MEDIA = {"csv": "text/csv; charset=utf-8", "json": "application/json", "zip": "application/zip"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_MOST_BYTES = 500_000_000
_UNSAFE = re.compile(r"[^\w.-]+")


def cell(value: str | None) -> str:
    """A text as a spreadsheet may safely open it: nothing that starts a formula stays at its start."""
    text = value or ""
    return f"'{text}" if text.startswith(_FORMULA) else text


def as_csv(items: Sequence[Mapping[str, Any]], *, paths: bool) -> bytes:
    """One line per image: id, file, fact and metadata."""
    keys = sorted({key for item in items for key in metadata_of(item)})
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(["id", "file", "fact", *map(cell, keys)])
    for item in items:
        metadata = metadata_of(item)
        row = [item["id"], _file(item, paths), item["fact"], *(metadata.get(key) for key in keys)]
        writer.writerow([cell(value) for value in row])
    return out.getvalue().encode("utf-8", "replace")


def as_json(items: Sequence[Mapping[str, Any]], *, paths: bool) -> bytes:
    """One object per image."""
    rows = [
        {"id": item["id"], "file": _file(item, paths), "fact": item["fact"], "metadata": metadata_of(item)}
        for item in items
    ]
    return json.dumps(rows, ensure_ascii=False, indent=1).encode("utf-8", "replace")


def _file(item: Mapping[str, Any], paths: bool) -> str:
    return str(item["path"]) if paths else PurePath(item["path"]).name


def write_zip(items: Sequence[Mapping[str, Any]], out: IO[bytes]) -> None:
    """The images' files, each only if it still is what was indexed, and a list of all.

    Raises:
        FactIndexError: if they are too large together.
    """
    left = _MOST_BYTES
    rows = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for number, item in enumerate(items, 1):
            content = _content(item, left)
            name = f"{number:04d}-{_UNSAFE.sub('_', PurePath(item['path']).name)[-80:]}"
            rows.append({"id": item["id"], "fact": item["fact"], "file": name if content is not None else None})
            if content is not None:
                left -= len(content)
                archive.writestr(name, content)
        archive.writestr("images.json", json.dumps(rows, ensure_ascii=False, indent=1).encode("utf-8", "replace"))


def _content(item: Mapping[str, Any], most: int) -> bytes | None:
    """A file's bytes, if they are those that were indexed: nothing else that stands in its place is given away."""
    expected = item.get("sha256")
    if not expected:
        return None
    try:
        with places.open_file(item["path"]) as stream:
            content = stream.read(most + 1)
        unchanged = places.is_remote(item["path"]) and places.content_key(item["path"]) == expected
    except (OSError, ValueError, FactlearnError):
        return None
    if len(content) > most:
        raise FactIndexError(f"The images have more than {_MOST_BYTES:,} bytes together; choose fewer.")
    return content if unchanged or hashlib.sha256(content).hexdigest() == expected else None
