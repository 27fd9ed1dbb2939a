import numpy as np
import pytest

from factlearn.errors import FactIndexError, LanguageError
from factlearn.facts import Fact
from factlearn.retrieval import FactIndex, Version
from factlearn.retrieval.folder import writer
from tests.retrieval.conftest import FACTS, compact, language_space, more_images
from tests.retrieval.test_index import QUERIES, brute_force


def joined(*collections):
    """The collection after images were added, those with the same ids in place of the earlier."""
    images = {}
    for each in collections:
        for name, vector in zip(each["ids"], each["vectors"], strict=True):
            images.pop(name, None)
            images[name] = vector
    return {"ids": list(images), "vectors": np.stack(list(images.values()))}


def assert_holds(index, expected, language):
    assert sorted(index.ids) == sorted(expected["ids"])
    assert len(index) == len(expected["ids"])
    stored = dict(zip(index.ids, index.vectors, strict=True))
    for name, vector in zip(expected["ids"], expected["vectors"], strict=True):
        np.testing.assert_array_equal(stored[name], vector)
    for query in QUERIES[::3]:
        assert [hit.id for hit in index.query(query, k=500)] == brute_force(expected, language, query)[0]
    assert not index.verify()


def test_added_images_join_and_replace_those_with_the_same_ids(index, collection, language):
    new = more_images(20)
    new["ids"][:5] = collection["ids"][10:15]
    index.add(**new, model="m1", facts=[Fact("dog")] * 20)
    expected = joined(collection, new)
    assert_holds(index, expected, language)
    assert_holds(FactIndex.open(index.path), expected, language)
    hit = index.query("<dog>", where=f"id = '{new['ids'][2]}'")[0]
    assert (hit.fact, hit.metadata, hit.model) == (Fact("dog"), {"split": "train", "year": "1992"}, "m1")


def test_each_image_remembers_the_version_that_embedded_it(index):
    index.add(**more_images(4), model=Version("m2", lineage="m1", run="runs/a", stage=1))
    assert list(index.models) == ["m1", "m2"]
    assert index.model == "m2"
    assert index.models["m2"].run == "runs/a"
    assert {hit.id for hit in index.query("<dog>", where="model = 'm2'")} == {f"more/{n}.png" for n in range(4)}


def test_a_foreign_model_or_language_is_refused_with_the_reason_and_changes_nothing(index, collection, language):
    with pytest.raises(FactIndexError, match=r"descend from m1; the model z descends from y and is not comparable"):
        index.add(**more_images(2), model=Version("z", lineage="y"))
    with pytest.raises(FactIndexError, match="language space"):
        index.add(**more_images(2), model="m1", language=language_space(seed=9))
    with pytest.raises(LanguageError, match="unicorn"):
        index.add(**more_images(2), model="m1", known_facts=[Fact("unicorn")])
    wide = {**more_images(2), "vectors": np.zeros((2, 3, 9), np.float32)}
    with pytest.raises(FactIndexError, match="dimension 9"):
        index.add(**wide, model="m1")
    assert_holds(FactIndex.open(index.path), collection, language)


def test_images_are_removed_by_id_by_pattern_and_by_filter(index, collection, language):
    def keep(test):
        chosen = [place for place in range(len(left["ids"])) if test(left["ids"][place])]
        return {"ids": [left["ids"][place] for place in chosen], "vectors": left["vectors"][chosen]}

    left = {"ids": collection["ids"], "vectors": collection["vectors"]}
    assert index.remove(["set/3.png", "set/4.png", "unknown"]) == 2
    left = keep(lambda name: name not in ("set/3.png", "set/4.png"))
    assert_holds(index, left, language)
    assert index.remove(pattern="set/1?.png") == 10
    left = keep(lambda name: not (len(name) == 10 and name[4] == "1"))
    assert_holds(index, left, language)
    with_vendor = {item["id"] for item in index.items("vendor = 'x'")}
    assert index.remove(where="vendor = 'x'") == len(with_vendor)
    left = keep(lambda name: name not in with_vendor)
    assert_holds(index, left, language)
    assert index.remove(pattern="set/2*", where="id like '%5.png'") == len({"set/25.png"} & set(left["ids"]))
    assert index.remove(["set/3.png"]) == index.remove() == index.remove(pattern="nothing*") == 0
    assert_holds(index, keep(lambda name: name != "set/25.png"), language)


def test_the_last_images_cannot_be_removed(index):
    with pytest.raises(FactIndexError, match="without images"):
        index.remove(pattern="*")
    assert len(FactIndex.open(index.path)) == 120


def test_many_small_changes_keep_few_segments_and_exact_answers(index, collection, language):
    parts = [collection]
    for number in range(20):
        part = more_images(6, seed=number, prefix=f"p{number % 7}")
        parts.append(part)
        index.add(**part, model="m1" if number < 9 else "m2")
        assert len(index.store.segments) <= writer.MOST_SEGMENTS + 1
    expected = joined(*parts)
    assert_holds(index, expected, language)
    compact(index.path)
    index.reload()
    assert len(index.store.segments) == 2  # one per model
    assert all(segment.deleted is None for segment in index.store.segments)
    assert_holds(index, expected, language)


def test_many_images_are_dealt_out_to_segments_of_a_limited_size(tmp_path, monkeypatch, collection, language):
    monkeypatch.setattr(writer, "MOST_ROWS", 50)
    index = FactIndex.create(tmp_path / "i", **collection, language=language, model="m1", known_facts=FACTS)
    assert [len(segment) for segment in index.store.segments] == [50, 50, 20]
    assert_holds(index, collection, language)


def test_facts_added_later_can_be_asked_for_in_plain_words_without_the_word_vectors(index, language):
    assert "horse: never taught" in index.read("horse").notes[0]
    index.add(**more_images(2), model="m1", known_facts=[Fact("horse")], language=language)
    reopened = FactIndex.open(index.path)
    assert reopened.read("horse").notes == ()
    assert reopened.query("horse") == index.query("<horse>")
    assert reopened.facts == tuple(sorted({*FACTS, Fact("horse")}))


# Making and replacing


def test_an_existing_index_is_replaced_only_on_request(index, collection, language):
    with pytest.raises(FactIndexError, match="--overwrite"):
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


def test_the_same_collection_is_written_to_the_same_bytes(tmp_path, index, collection, language):
    again = FactIndex.create(tmp_path / "again", **collection, language=language, model="m1", known_facts=index.facts)
    assert (again.path / "index.json").read_text() == (index.path / "index.json").read_text()
