import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from factlearn.errors import FactIndexError
from factlearn.files import sha256_file
from factlearn.retrieval import store_at
from factlearn.retrieval.folder.segments import items_table
from factlearn.retrieval.index import FactIndex
from factlearn.retrieval.items import Images
from factlearn.retrieval.rows import pack
from tests.retrieval.conftest import FACTS


@pytest.fixture
def old(tmp_path, collection, language):
    """An index folder of version 1."""
    path = tmp_path / "old"
    path.mkdir()
    language.embed(FACTS)
    language.save(path / "language")
    np.save(path / "rows.npy", pack(collection["vectors"]))
    items = items_table(Images(**collection).columns).drop_columns(["bytes", "modified", "sha256"])
    pq.write_table(items, path / "items.parquet")
    files = {str(file.relative_to(path)): {"sha256": sha256_file(file)} for file in path.rglob("*") if file.is_file()}
    body = {"format": "factlearn index", "version": 1, "model": "m1", "facts": sorted(map(str, FACTS)), "files": files}
    (path / "index.json").write_text(json.dumps(body))
    return path


def test_an_index_of_version_1_answers_the_same_once_it_is_upgraded(old, index):
    assert store_at(old).upgrade(old) is True
    assert store_at(old).upgrade(old) is False
    upgraded = FactIndex.open(old, verify=True)
    assert upgraded.items() == index.items()
    assert upgraded.models == index.models
    assert upgraded.query("<person, riding, *>", k=200) == index.query("<person, riding, *>", k=200)


def test_a_damaged_index_of_version_1_is_refused_and_left_as_it_is(old):
    (old / "rows.npy").write_bytes(b"")
    before = {file: file.read_bytes() for file in old.rglob("*") if file.is_file()}
    with pytest.raises(FactIndexError, match=r"rows\.npy is damaged or missing"):
        store_at(old).upgrade(old)
    assert {file: file.read_bytes() for file in old.rglob("*") if file.is_file()} == before


def test_what_is_not_an_index_cannot_be_upgraded(tmp_path):
    with pytest.raises(FactIndexError, match="not an index"):
        store_at(tmp_path).upgrade(tmp_path)
