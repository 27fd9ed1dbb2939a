import json
import shutil

import numpy as np
import pytest

from factlearn.errors import FactIndexError
from factlearn.retrieval import FactIndex


@pytest.fixture
def files(index):
    return sorted(file for file in index.path.rglob("*") if file.is_file())


def test_every_flipped_bit_is_reported_or_harmless(index, files):
    rng = np.random.default_rng(0)
    expected = [hit.to_json() for hit in index.query("<person, riding, *>")]
    for file in files:
        content = file.read_bytes()
        for _ in range(25):
            damaged = bytearray(content)
            damaged[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
            file.write_bytes(damaged)
            try:
                served = [hit.to_json() for hit in FactIndex.open(index.path).query("<person, riding, *>")]
            except FactIndexError:
                continue
            assert served == expected, f"{file} was damaged and served"
        file.write_bytes(content)
    assert [hit.to_json() for hit in FactIndex.open(index.path).query("<person, riding, *>")] == expected


def test_a_cut_or_missing_file_is_reported_by_name_even_without_verifying(index, files):
    for file in files:
        content = file.read_bytes()
        file.write_bytes(content[:-2])
        with pytest.raises(FactIndexError, match=file.name):
            FactIndex.open(index.path, verify=False)
        file.unlink()
        with pytest.raises(FactIndexError, match=file.name):
            FactIndex.open(index.path, verify=False)
        file.write_bytes(content)


def test_a_file_swapped_with_one_of_another_index_is_reported(tmp_path, collection, index, language):
    vectors = collection["vectors"][::-1]
    other = FactIndex.create(tmp_path / "other", **{**collection, "vectors": vectors}, language=language, model="m1")
    shutil.copy(other.path / "rows.npy", index.path / "rows.npy")
    with pytest.raises(FactIndexError, match=r"rows\.npy is damaged"):
        FactIndex.open(index.path)


def test_an_index_of_a_later_format_is_refused_with_the_version(index):
    manifest = index.path / "index.json"
    body = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**body, "version": 99}))
    with pytest.raises(FactIndexError, match="version 99"):
        FactIndex.open(index.path)


@pytest.mark.parametrize("content", ["", "[]", "null", "{}", '{"format": "else"}', '{"format": "factlearn index"}'])
def test_a_manifest_of_another_kind_is_refused(index, content):
    (index.path / "index.json").write_text(content)
    with pytest.raises(FactIndexError, match=r"index\.json"):
        FactIndex.open(index.path)


def test_a_folder_without_an_index_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(FactIndexError, match="not an index"):
            FactIndex.open(path)


def test_an_existing_index_is_replaced_only_on_request(index, collection, language):
    with pytest.raises(FactIndexError, match="overwriting"):
        FactIndex.create(index.path, **collection, language=language, model="m2")
    assert FactIndex.open(index.path).model == "m1"
    replaced = FactIndex.create(index.path, **collection, language=language, model="m2", overwrite=True)
    assert replaced.model == "m2"
    assert [entry.name for entry in index.path.parent.iterdir()] == [index.path.name]


def test_a_folder_that_is_not_an_index_is_never_replaced(tmp_path, collection, language):
    (tmp_path / "precious.txt").write_text("keep me")
    with pytest.raises(FactIndexError, match="not an index"):
        FactIndex.create(tmp_path, **collection, language=language, model="m", overwrite=True)
    assert (tmp_path / "precious.txt").read_text() == "keep me"


def test_an_index_opened_before_it_was_replaced_keeps_answering(index, collection, language):
    before = index.query("<dog>")
    moved = {**collection, "vectors": collection["vectors"] + 1}
    FactIndex.create(index.path, **moved, language=language, model="m2", overwrite=True)
    assert index.query("<dog>") == before


def test_the_same_collection_is_written_to_the_same_bytes(tmp_path, index, collection, language):
    again = FactIndex.create(tmp_path / "again", **collection, language=language, model="m1", known_facts=index.facts)
    assert (again.path / "index.json").read_text() == (index.path / "index.json").read_text()
