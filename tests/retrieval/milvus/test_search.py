"""The index in Milvus answers as the index in a folder and as brute force."""

import random

import numpy as np
import pytest

pytest.importorskip("pymilvus")
pytest.importorskip("milvus_lite")

from factlearn.errors import FactIndexError
from factlearn.retrieval import FactIndex, composing
from factlearn.retrieval.milvus import client, search, store
from factlearn.retrieval.milvus.filter import implied
from factlearn.retrieval.where import parse_filter
from tests.retrieval.milvus.images import (
    check_random_queries,
    collection,
    described,
    in_two_steps,
    make,
    random_filter,
    release,
)
from tests.retrieval.test_composing import RIDER, make_riders


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same images in Milvus and in a folder, added in two steps by two versions of the model."""
    folder = tmp_path_factory.mktemp("milvus")
    images = collection()
    indexes = [in_two_steps(place, images) for place in (f"milvus:{folder}/images.db/pictures", folder / "index")]
    yield (*indexes, images)
    release(folder)


def test_random_queries_answer_as_the_folder_and_as_brute_force(both):
    check_random_queries(both, 100, seed=1)


@pytest.mark.parametrize("looked_at", [composing._LOOKED_AT, 30])
def test_facts_never_taught_are_answered_as_by_the_folder(address, tmp_path, language, monkeypatch, looked_at):
    monkeypatch.setattr(composing, "_LOOKED_AT", looked_at)
    in_milvus, in_folder = make_riders(address, language), make_riders(tmp_path / "riders", language)
    for text, options in (
        (RIDER, {"k": 9}), (RIDER, {"k": 5, "offset": 3, "where": "split = 'test'"}), ("<*, *, horse>", {"k": 7}),
        (RIDER, {"k": 4, "without": ["<horse>"], "weights": (1, 2, 1)}),
    ):  # fmt: skip
        found = [[(hit.id, hit.score, dict(hit.scores)) for hit in index.query(text, **options)]
                 for index in (in_milvus, in_folder)]  # fmt: skip
        assert len(found[1]) == options["k"]
        assert found[0] == found[1]


@pytest.mark.slow
def test_a_thousand_random_queries_answer_as_the_folder_and_as_brute_force(both):
    check_random_queries(both, 1000, seed=2)


def test_random_filters_let_the_same_images_pass(both):
    in_milvus, in_folder, images = both
    pick, known = random.Random(3), described(images)
    exact = 0
    for _ in range(150):
        where, says = random_filter(pick, known, depth=3)
        expected = sorted(image["id"] for image in known if says(image) is True)
        assert sorted(item["id"] for item in in_folder.items(where)) == expected, where
        assert [item["id"] for item in in_milvus.items(where)] == expected, where
        exact += implied(parse_filter(where))[1]
    assert exact > 30  # most filters are Milvus's work, the others the client's


def test_what_is_stored_of_images_is_what_the_folder_stores(both):
    in_milvus, in_folder, _ = both

    def told(index):
        items = ({key: value for key, value in item.items() if value is not None} for item in index.items())
        return sorted(items, key=lambda item: item["id"])

    assert told(in_milvus) == told(in_folder)
    assert [list(item) for item in told(in_milvus)] == [list(item) for item in told(in_folder)]  # in the same order
    hits = zip(in_milvus.query("<dog>", 50), in_folder.query("<dog>", 50), strict=True)
    assert all(list(one.metadata) == list(other.metadata) for one, other in hits)
    order = np.argsort(np.asarray(in_folder.ids, object))
    np.testing.assert_array_equal(in_milvus.vectors, in_folder.vectors[order])
    assert in_milvus.facts == in_folder.facts
    assert in_milvus.models == in_folder.models
    assert in_milvus.dimension == in_folder.dimension
    assert len(in_milvus) == len(in_folder) == 300


def test_a_filter_on_an_unknown_column_is_refused_as_by_the_folder(both):
    messages = []
    for index in both[:2]:
        with pytest.raises(FactIndexError, match="no column 'colour'") as refused:
            index.query("<dog>", where="colour = 'red'")
        messages.append(str(refused.value))
    assert messages[0] == messages[1]


def test_patterns_that_a_server_does_not_know_are_matched_here(both, monkeypatch):
    in_milvus, in_folder, _ = both
    monkeypatch.setattr(client.Connection, "finds_substrings", False)
    in_milvus = FactIndex.open(in_milvus.path)
    sent, ask = [], client.Connection.query

    def listened(*given, **options):
        sent.append(given[2])
        return ask(*given, **options)

    monkeypatch.setattr(client.Connection, "query", listened)
    for pattern in ("%es%", "%t", "te%", "test", "%"):
        for where in (f"split like '{pattern}'", f"split not like '{pattern}' or id like '%7%'"):
            expected = sorted(item["id"] for item in in_folder.items(where))
            assert [item["id"] for item in in_milvus.items(where)] == expected, where
            assert in_milvus.query("<dog>", where=where) == in_folder.query("<dog>", where=where)
    assert not [expression for expression in sent if 'like "%' in expression]
    assert [expression for expression in sent if 'like "te%"' in expression]


def limit_answers(monkeypatch, most):
    """Make Milvus return few rows at once."""
    for module in (client, search, store):
        monkeypatch.setattr(module, "MOST", most)
    monkeypatch.setattr(search, "FEW", 4)


def test_answers_larger_than_milvus_gives_at_once_are_whole(both, monkeypatch):
    in_milvus, in_folder, _ = both
    limit_answers(monkeypatch, 8)
    for query, where in (
        ("<dog>", None),
        ("<*, riding>", "split like '_est' or year > 0"),
        ("<person>", "model = 'm2'"),
    ):
        assert in_milvus.query(query, 40, where=where) == in_folder.query(query, 40, where=where)
        assert in_milvus.query(query, 1000, where=where) == in_folder.query(query, 1000, where=where)
        assert in_milvus.query(query, 5, also=["<person, riding>"], where=where) == in_folder.query(
            query, 5, also=["<person, riding>"], where=where
        )


def test_images_that_all_score_the_same_are_all_considered(address, tmp_path, monkeypatch):
    limit_answers(monkeypatch, 16)
    images = collection(150)
    images["vectors"][:] = images["vectors"][0]
    in_milvus, in_folder = make(address, images), make(tmp_path / "index", images)
    assert [hit.id for hit in in_milvus.query("<dog>", 10)] == sorted(images["ids"])[:10]
    assert in_milvus.query("<dog>", 10) == in_folder.query("<dog>", 10)


def test_vectors_near_the_end_of_float32_are_still_ranked_exactly(address, tmp_path):
    images = collection(60)
    images["vectors"] *= np.float32(1e18)
    images["vectors"][::2] *= np.float32(1e-20)
    in_milvus, in_folder = make(address, images), make(tmp_path / "index", images)
    for query in ("<dog>", "<person, riding, bike>"):
        assert in_milvus.query(query, 60) == in_folder.query(query, 60)


def test_several_queries_at_once_negations_and_similar_images_answer_as_the_folder(both):
    in_milvus, in_folder, images = both
    texts = ["<dog>", "<*, riding>", "<person, *, bike>"] * 30
    assert in_milvus.query_many(texts, k=4) == in_folder.query_many(texts, k=4)
    options = {"without": ["<person, riding, bike>"], "threshold": -3.0, "weights": (1, 2, 1)}
    assert in_milvus.query("<*, riding>", 20, **options) == in_folder.query("<*, riding>", 20, **options)
    assert in_milvus.similar(images["vectors"][5]) == in_folder.similar(images["vectors"][5])
    assert in_milvus.facts_of(images["vectors"][5]) == in_folder.facts_of(images["vectors"][5])


@pytest.mark.slow
def test_more_equal_images_than_milvus_gives_at_once_are_all_found(address, tmp_path):
    count = client.MOST + 3000
    images = {
        "vectors": np.ones((count, 3, 8), np.float32),
        "ids": [f"{number:05d}" for number in range(count)],
        "paths": ["x"] * count,
    }
    in_milvus, in_folder = make(address, images), make(tmp_path / "index", images)
    assert in_milvus.query("<dog>", 5) == in_folder.query("<dog>", 5)
    assert [hit.id for hit in in_milvus.query("<dog>", count)] == images["ids"]
