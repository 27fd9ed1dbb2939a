"""Items that change while their vectors stay, in every store; and folders that are gone."""

import numpy as np
import pytest

from factlearn.indexing.building import build_index, rewrite_items
from factlearn.indexing.relocating import gone_folders, relocate
from factlearn.indexing.syncing import sync
from factlearn.retrieval import FactIndex
from tests.conftest import draw


@pytest.fixture(params=["folder", "milvus"])
def index(request, light_run, tmp_path, pictures):
    if request.param == "milvus":
        pytest.importorskip("milvus_lite")
    place = tmp_path / "index" if request.param == "folder" else f"milvus:{tmp_path}/lite.db/photos"
    return build_index(light_run, str(pictures), place)


def by_id(index):
    return {item["id"]: (item, vector) for item, vector in zip(index.items(), index.vectors, strict=True)}


@pytest.mark.parametrize(
    "renamed",
    [
        {"0.png": "new.png"},
        {"0.png": "1.png"},  # an image with the new id is replaced
        {"0.png": "1.png", "1.png": "0.png"},
        {"0.png": "1.png", "1.png": "2.png", "2.png": "3.png", "3.png": "0.png"},
        {"0.png": "a", "1.png": "b", "2.png": "more/4.png"},
    ],
)
def test_rewriting_changes_ids_and_nothing_else(index, renamed):
    before = by_id(index)
    rewrite_items(index, {old: {"id": new} for old, new in renamed.items()})
    after = by_id(FactIndex.open(index.path))
    expected = {name: name for name in before if name not in renamed and name not in renamed.values()}
    expected |= {new: old for old, new in renamed.items()}
    assert set(after) == set(expected)
    for new, old in expected.items():
        np.testing.assert_array_equal(after[new][1], before[old][1])
        assert after[new][0] == {**before[old][0], "id": new}
    assert index.verify() == []


def test_a_relocated_index_answers_as_before_and_stays_in_sync(index, pictures, tmp_path):
    before = index.query("<tree>")
    pictures.rename(tmp_path / "archive")
    assert relocate(index, pictures, tmp_path / "archive").relocated == 5
    after = FactIndex.open(index.path).query("<tree>")
    assert [(hit.id, hit.score) for hit in after] == [(hit.id, hit.score) for hit in before]
    assert sync(index, tmp_path / "archive").unchanged == 5
    (tmp_path / "archive" / "0.png").unlink()
    draw(5, 70, tmp_path / "archive" / "1.png")
    done = sync(index, tmp_path / "archive")
    assert (done.changed, done.removed, done.images) == (1, 1, 4)


def test_relocating_keeps_vectors_of_several_models_and_an_optimized_search(run, tmp_path, pictures):
    index = build_index(run, str(pictures), tmp_path / "index", stage=1)
    draw(5, 70, pictures / "late.png")
    index.remove(["0.png"])
    sync(index, pictures)
    index.optimize(kinds=["hnsw"])
    kind, models = index.store.describe()["search"]["kind"], {item["id"]: item["model"] for item in index.items()}
    assert len(set(models.values())) == 2
    generation = index.store.describe()["generation"]
    pictures.rename(tmp_path / "archive")
    assert relocate(index, pictures, tmp_path / "archive").relocated == 6
    assert index.store.describe()["search"]["kind"] == kind == "hnsw"
    assert index.store.describe()["generation"] == generation + 1
    assert {item["id"]: item["model"] for item in index.items()} == models
    assert index.verify() == []
    assert len(index.query("<tree>")) == 6


def test_only_folders_without_any_image_left_are_gone(light_run, tmp_path, pictures):
    index = build_index(light_run, str(pictures), tmp_path / "index")
    (pictures / "0.png").unlink()
    assert gone_folders(index.items()) == {}
    (pictures / "more" / "4.png").rename(tmp_path / "4.png")
    assert gone_folders(index.items()) == {pictures / "more": 1}
    pictures.rename(tmp_path / "archive")
    assert gone_folders(index.items()) == {pictures: 5}
