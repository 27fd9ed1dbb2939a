"""Images of several facts in an index: one item, which learns new facts without being embedded again."""

import pytest

from factlearn.facts import Fact
from factlearn.indexing.building import add_images, build_index
from factlearn.indexing.relocating import relocate
from factlearn.indexing.syncing import sync
from factlearn.retrieval import FactIndex
from factlearn.retrieval.verdicts import verdict
from tests.conftest import draw

BALL, TREE, DOG = Fact("red ball"), Fact("tree"), Fact("dog")


def listed(folder, *rows):
    (folder / "list.csv").write_text("\n".join(["path,subject,predicate,object,year", *rows]) + "\n")
    return str(folder / "list.csv")


def facts_in(index):
    return {hit.id: hit.facts for hit in index.query("<tree>", k=100)}


@pytest.fixture
def index(run, tmp_path, pictures):
    rows = ["0.png,red ball,,,2001", "0.png,tree,,,2002", "1.png,dog,,,2003"]
    return build_index(run, listed(pictures, *rows), tmp_path / "index")


def test_a_photo_is_one_image_with_all_its_facts(index):
    assert facts_in(index) == {"0.png": (BALL, TREE), "1.png": (DOG,)}
    hit = next(hit for hit in index.query("<tree>") if hit.id == "0.png")
    assert (hit.fact, hit.metadata) == (BALL, {"year": "2001"})
    assert hit.to_json()["facts"] == ["<red ball>", "<tree>"]
    assert verdict(hit.facts, index.parse("<tree>"), index.vocabulary) is True
    assert [item["id"] for item in index.items("facts like '%<tree>%'")] == ["0.png"]
    assert [item["id"] for item in index.items("facts = '<dog>'")] == ["1.png"]
    assert [item["id"] for item in index.items("fact = '<red ball>'")] == ["0.png"]


def test_facts_that_are_added_later_join_the_image_and_its_vector_stays(index, pictures):
    before = index.vectors
    report = add_images(index, listed(pictures, "1.png,tree,,,2004", "0.png,red ball,,,2001", "2.png,dog,,,"))
    assert (report.new, report.changed, report.unchanged) == (["2.png"], [], 2)
    assert facts_in(index) == {"0.png": (BALL, TREE), "1.png": (DOG, TREE), "2.png": (DOG,)}
    assert {tuple(row.ravel()) for row in before} <= {tuple(row.ravel()) for row in index.vectors}
    again = FactIndex.open(index.path)
    assert facts_in(again) == facts_in(index)
    assert add_images(index, str(pictures / "list.csv")).unchanged == 3


def test_facts_survive_syncing_moving_and_editing(index, pictures, tmp_path):
    (pictures / "0.png").rename(pictures / "moved.png")
    draw(4, 50, pictures / "1.png")
    (pictures / "list.csv").unlink()
    done = sync(index, pictures)
    assert (done.moved, done.changed, done.found) == (1, 1, done.indexed)
    assert facts_in(index)["moved.png"] == (BALL, TREE)
    assert facts_in(index)["1.png"] == (DOG,)
    pictures.rename(tmp_path / "elsewhere")
    relocate(index, pictures, tmp_path / "elsewhere")
    assert facts_in(index)["moved.png"] == (BALL, TREE)


def test_an_index_with_one_item_per_fact_still_works(run, index, pictures):
    """As they were built once: further facts had items of their own, `ID#FACT`."""
    item = index.items("id = '0.png'")[0]
    vector = index.vectors[index.ids.index("0.png")][None]
    files = [{name: item[name] for name in ("bytes", "modified", "sha256")}]
    path = pictures / "0.png"
    index.remove(["0.png"])
    for name, fact in (("0.png", BALL), ("0.png#<tree>", TREE)):
        index.add(vector, [name], paths=[path], facts=[fact], files=files, model=index.model)
    report = add_images(index, str(pictures / "list.csv"))
    assert (report.new, report.changed) == ([], [])
    assert facts_in(index) == {"0.png": (BALL,), "0.png#<tree>": (TREE,), "1.png": (DOG,)}
