"""A copy of an index in another place or store is exact."""

import itertools

import numpy as np
import pytest

from factlearn.errors import FactIndexError
from factlearn.retrieval import FactIndex, Version
from factlearn.retrieval.copying import copy
from tests.retrieval.conftest import FACTS, more_images


def everything(index):
    """All that an index holds, in an order of its own."""
    items = [{key: value for key, value in item.items() if value is not None} for item in index.items()]
    rows = zip(items, index.vectors, strict=True)
    return sorted(((item, vector.tobytes()) for item, vector in rows), key=lambda row: row[0]["id"])


def check_same(copied, index):
    assert everything(copied) == everything(index)
    assert copied.models == index.models
    assert copied.facts == index.facts
    assert copied.language.fingerprint == index.language.fingerprint
    assert copied.verify() == []
    for options in ({}, {"also": ["<dog>"]}, {"where": "year > 1995", "offset": 2}, {"anywhere": True}):
        assert copied.query("<person, *, bike>", **options) == index.query("<person, *, bike>", **options)


def test_a_folder_is_copied_to_another(grown, tmp_path):
    grown.add(**more_images(4, seed=9, prefix="newest"), model=Version("m3", "m1"), known_facts=FACTS)
    grown.remove(pattern="newest/*")  # the newest model stays known without images
    assert "m3" in grown.models
    copy(grown, tmp_path / "copied")
    check_same(FactIndex.open(tmp_path / "copied"), grown)


def test_a_folder_survives_the_way_to_milvus_and_back(grown, tmp_path):
    pytest.importorskip("milvus_lite")
    from tests.retrieval.milvus.images import release

    address = f"milvus:{tmp_path}/images.db/pictures"
    copy(grown, address)
    check_same(FactIndex.open(address), grown)
    back = copy(FactIndex.open(address), tmp_path / "back")
    check_same(back, grown)
    release(tmp_path)


def test_a_large_index_is_copied_in_parts(grown, tmp_path, monkeypatch):
    monkeypatch.setattr("factlearn.retrieval.copying._AT_ONCE", 7)
    check_same(copy(grown, tmp_path / "copied"), grown)


def test_a_copy_replaces_an_index_only_when_allowed_and_never_its_source(grown, index, tmp_path):
    target = tmp_path / "copied"
    copy(grown, target)
    with pytest.raises(FactIndexError, match="already an index"):
        copy(grown, target)
    copy(FactIndex.open(target), tmp_path / "third")
    assert len(copy(grown, target, overwrite=True)) == len(grown)
    with pytest.raises(FactIndexError, match="to itself"):
        copy(grown, tmp_path / "third" / ".." / grown.path.name, overwrite=True)
    assert FactIndex.open(grown.path).verify() == []


def test_a_copy_that_fails_leaves_nothing_behind(grown, tmp_path, monkeypatch):
    take, turns = type(grown.store).take, itertools.count()

    def failing(store, keys):
        if next(turns) == 2:
            raise FactIndexError("The disk is gone.")
        return take(store, keys)

    monkeypatch.setattr("factlearn.retrieval.copying._AT_ONCE", 50)
    monkeypatch.setattr(type(grown.store), "take", failing)
    before = set(tmp_path.iterdir())
    with pytest.raises(FactIndexError, match="disk is gone"):
        copy(grown, tmp_path / "copied")
    assert set(tmp_path.iterdir()) == before


def test_a_source_that_changes_while_it_is_copied_is_reported(index, tmp_path, monkeypatch):
    pytest.importorskip("milvus_lite")
    from tests.retrieval.milvus.images import release

    address = f"milvus:{tmp_path}/images.db/pictures"
    source, other = copy(index, address), FactIndex.open(address)
    take = type(source.store).take

    def meanwhile(store, keys):
        monkeypatch.setattr(type(source.store), "take", take)
        rows = take(store, keys)
        other.add(**more_images(2), model="m1")
        return rows

    monkeypatch.setattr(type(source.store), "take", meanwhile)
    with pytest.raises(FactIndexError, match="changed while it was copied"):
        copy(source, tmp_path / "copied")
    assert not (tmp_path / "copied").exists()
    assert np.isin(["more/0.png"], FactIndex.open(address).ids).all()
    release(tmp_path)
