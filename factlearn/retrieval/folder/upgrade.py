"""Upgrading an index folder of an earlier format.

Version 1 was written as a whole: `rows.npy`, `items.parquet`, `language/` and an `index.json` with their SHA-256.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from factlearn.errors import FactIndexError
from factlearn.facts import Fact
from factlearn.files import sha256_file
from factlearn.language import LanguageSpace
from factlearn.retrieval.about import About, Version, with_version
from factlearn.retrieval.folder.manifest import MANIFEST, VERSION
from factlearn.retrieval.folder.store import FolderStore
from factlearn.retrieval.items import Images, metadata_of
from factlearn.retrieval.rows import unpack


def upgrade(path: Path) -> bool:
    """Rewrite an index of version 1 in the present format, in one step; False if it is up to date.

    Raises:
        FactIndexError: if there is no index, one of its files is damaged, or its version is unknown.
    """
    try:
        body = json.loads((path / MANIFEST).read_bytes())
        version = body["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FactIndexError(f"{path} is not an index (it has no readable {MANIFEST}).") from error
    if version == VERSION:
        return False
    if version != 1:
        raise FactIndexError(
            f"{path} is an index of version {version}; this factlearn knows only versions 1 and {VERSION}."
        )
    _rewrite(path, body)
    return True


def _rewrite(path: Path, body: dict[str, Any]) -> None:
    import pyarrow.parquet as pq

    for name, expected in body["files"].items():
        if not (path / name).is_file() or sha256_file(path / name) != expected["sha256"]:
            raise FactIndexError(f"{path / name} is damaged or missing; build the index again.")
    rows = np.load(path / "rows.npy", mmap_mode="r", allow_pickle=False)
    items = pq.read_table(path / "items.parquet").to_pylist()
    images = Images(
        unpack(rows),
        [item["id"] for item in items],
        [item["path"] for item in items],
        [Fact.parse(item["fact"]) if item["fact"] else None for item in items],
        [metadata_of(item) for item in items],
    )
    language = LanguageSpace.load(path / "language")
    model = body["model"]
    models = with_version({}, Version(model, model))
    about = About.of(language.dimension, language.fingerprint, body["facts"], models)
    FolderStore.create(path, about, language, [(images, model)], overwrite=True)
