import itertools
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from factlearn.errors import FactError, FactIndexError, LanguageError
from factlearn.facts import Fact, FactQuery
from factlearn.retrieval import FactIndex
from tests.retrieval.conftest import FACTS, language_space

QUERIES = [
    FactQuery(tuple(units))
    for units in itertools.product([None, "person", "dog"], [None, "riding"], [None, "bike", "golf"])
    if any(units)
]


def brute_force(collection, language, query):
    """The ids of all images, best first, straight from the definition."""
    target, mask = language.embed([query])
    difference = collection["vectors"].astype(np.float64) - target[0]
    scores = -((difference**2).sum(axis=-1) * mask[0]).sum(axis=-1)
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], collection["ids"][place]))
    return [collection["ids"][place] for place in order], scores[order]


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_queries_with_any_wildcards_rank_as_brute_force_does(index, collection, language, query):
    expected, scores = brute_force(collection, language, query)
    hits = index.query(query, k=30)
    assert [hit.id for hit in hits] == expected[:30]
    np.testing.assert_allclose([hit.score for hit in hits], scores[:30], rtol=1e-12)


def test_a_hit_says_what_the_collection_said_of_the_image(index, collection):
    hit = index.query("<person, *, bike>", k=1)[0]
    place = collection["ids"].index(hit.id)
    assert hit.path == Path(collection["paths"][place])
    assert hit.fact == collection["facts"][place]
    assert hit.metadata == collection["metadata"][place]
    assert set(hit.scores) == {"subject", "object"}
    assert hit.score == pytest.approx(sum(hit.scores.values()))
    json.dumps(hit.to_json(), allow_nan=False)


def test_text_facts_and_queries_ask_the_same(index):
    expected = index.query(FactQuery(("person", "riding", "mountain bike")))
    for query in (Fact("person", "riding", "mountain bike"), "person | riding | mountain bike"):
        assert index.query(query) == expected
    assert index.query("Person riding mountain bike") == expected
    assert index.query("riding") == index.query("<*, riding>")


def test_several_queries_at_once_answer_as_each_alone(index):
    texts = ["<dog>", "<*, riding>", "<person, *, bike>"]
    assert index.query_many(texts, k=4) == [index.query(text, k=4) for text in texts]
    assert index.query_many([]) == []


def test_more_than_there_is_gives_all(index, collection):
    hits = index.query("<dog>", k=10**6)
    assert sorted(hit.id for hit in hits) == sorted(collection["ids"])


def test_a_reopened_index_answers_without_the_word_vectors(index):
    expected = index.query("<person, riding, bike>")
    reopened = FactIndex.open(index.path)
    assert reopened.language.fingerprint == index.language.fingerprint
    assert reopened.query("<person, riding, bike>") == expected
    assert reopened.facts == tuple(sorted(FACTS))
    assert len(reopened) == 120
    assert reopened.dimension == 8


def test_the_stored_vectors_and_ids_are_those_given(index, collection):
    np.testing.assert_array_equal(index.vectors, collection["vectors"])
    assert index.ids == collection["ids"]


def test_another_language_space_is_refused_with_the_reason(index):
    with pytest.raises(FactIndexError, match="language space"):
        FactIndex.open(index.path, language_space(seed=5))


def test_another_model_is_refused_with_the_reason(index):
    index.check_model("m1")
    with pytest.raises(FactIndexError, match=r"model m1, not m2"):
        index.check_model("m2")


@pytest.mark.parametrize("k", [0, -3])
def test_asking_for_no_images_is_refused(index, k):
    with pytest.raises(FactIndexError, match="at least 1"):
        index.query("<dog>", k=k)


@pytest.mark.parametrize(
    ("text", "error"),
    [("", FactError), ("<*, *, *>", FactError), ("flying saucer", FactError), ("<unicorn>", LanguageError)],
)
def test_text_that_is_no_query_is_refused(index, text, error):
    with pytest.raises(error):
        index.query(text)


def refused(tmp_path, collection, language, message, **changes):
    arguments = {**collection, "language": language, "model": "m", **changes}
    with pytest.raises(FactIndexError, match=message):
        FactIndex.create(tmp_path / "new", **arguments)
    assert not (tmp_path / "new").exists()


def test_collections_that_cannot_be_indexed_are_refused_and_leave_nothing(tmp_path, collection, language):
    vectors, ids = collection["vectors"], collection["ids"]
    spoiled = vectors.copy()
    spoiled[7, 0, 0] = np.nan
    empty = {"vectors": vectors[:0], "ids": [], "paths": [], "facts": [], "metadata": []}
    for message, changes in [
        ("no images", empty),
        ("row 7", {"vectors": spoiled}),
        ("119 vectors", {"vectors": vectors[:-1]}),
        ("1 paths", {"paths": ["x"]}),
        ("appears twice", {"ids": [ids[0], *ids[:-1]]}),
        ("dimension 7", {"vectors": vectors[..., :-1]}),
        ("Unicode", {"paths": ["\udcff.png", *ids[1:]]}),
        ("Unicode", {"metadata": [{"size": 3}] * len(ids)}),
        ("shape", {"vectors": vectors[:, :2]}),
    ]:
        refused(tmp_path, collection, language, message, **changes)


def test_facts_of_images_need_no_word_vectors(tmp_path, collection, language):
    facts = [Fact("xylophone")] * len(collection["ids"])
    index = FactIndex.create(tmp_path / "i", **{**collection, "facts": facts}, language=language, model="m")
    assert index.query("<dog>", k=1)[0].fact == Fact("xylophone")


def test_hits_survive_being_sent_to_another_process(index):
    hits = index.query("<dog>")
    assert pickle.loads(pickle.dumps(hits)) == hits


def test_images_are_found_from_any_working_directory(tmp_path, monkeypatch, collection, language):
    monkeypatch.chdir(tmp_path)
    paths = [f"pictures/{number}.png" for number in range(len(collection["ids"]))]
    index = FactIndex.create("index", **{**collection, "paths": paths}, language=language, model="m")
    assert index.query("<dog>", k=1)[0].path.parent == tmp_path / "pictures"
