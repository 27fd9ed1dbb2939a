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


def brute_force(collection, language, *queries, weights=(1, 1, 1)):
    """The ids of all images, best first, straight from the definition; of several queries the worst score counts."""
    targets, masks = language.embed(queries)
    difference = collection["vectors"].astype(np.float64)[:, None] - targets
    scores = -((difference**2).sum(axis=-1) * masks * weights).sum(axis=-1).max(axis=1)
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
    surrogate = {"\udcff": "a key"}
    for message, changes in [
        ("no images", empty),
        ("row 7", {"vectors": spoiled}),
        ("119 vectors", {"vectors": vectors[:-1]}),
        ("1 paths", {"paths": ["x"]}),
        ("appears twice", {"ids": [ids[0], *ids[:-1]]}),
        ("dimension 7", {"vectors": vectors[..., :-1]}),
        ("Unicode", {"paths": ["\udcff.png", *ids[1:]]}),
        ("Unicode", {"metadata": [{"size": 3}] * len(ids)}),
        ("Unicode", {"metadata": [surrogate] * len(ids)}),
        ("1 files", {"files": [{}]}),
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


# Weights, combinations, negations, thresholds, pages


@pytest.mark.parametrize("weights", [(1, 2, 1), (0.2, 0, 7), (0, 0, 1), (1e-3, 1e3, 1)])
def test_weights_multiply_each_units_distance(index, collection, language, weights):
    query = FactQuery(("person", "riding", "bike"))
    expected, scores = brute_force(collection, language, query, weights=weights)
    hits = index.query(query, k=200, weights=weights)
    assert [hit.id for hit in hits] == expected
    np.testing.assert_allclose([hit.score for hit in hits], scores, rtol=1e-12)
    named = [name for name, weight in zip(("subject", "predicate", "object"), weights, strict=True) if weight]
    for hit in hits:
        assert list(hit.scores) == named
        by_name = zip(("subject", "predicate", "object"), weights, strict=True)
        assert hit.score == pytest.approx(sum(weight * hit.scores.get(name, 0) for name, weight in by_name))
    assert index.query_many([query], k=200, weights=weights) == [hits]


@pytest.mark.parametrize(
    "weights", [(1, 2), (0, 0, 0), (-1, 1, 1), (float("nan"), 1, 1), (float("inf"), 1, 1), (1e9, 1, 1)]
)
def test_weights_that_make_no_sense_are_refused(index, weights):
    with pytest.raises(FactIndexError, match="three numbers"):
        index.query("<dog>", weights=weights)


def test_weights_that_leave_nothing_to_compare_are_refused(index):
    with pytest.raises(FactIndexError, match="leave nothing of <dog>"):
        index.query("<dog>", weights=(0, 1, 1))


def test_of_combined_facts_the_worst_score_counts(index, collection, language):
    queries = [FactQuery(("person", "riding", None)), FactQuery((None, None, "dog")), FactQuery(("woman", None, None))]
    expected, scores = brute_force(collection, language, *queries, weights=(1, 2, 3))
    hits = index.query(queries[0], k=200, also=queries[1:], weights=(1, 2, 3))
    assert [hit.id for hit in hits] == expected
    np.testing.assert_allclose([hit.score for hit in hits], scores, rtol=1e-12)
    weight = {"subject": 1, "predicate": 2, "object": 3}
    for hit in hits:  # the units shown are those of the fact that counts
        assert tuple(hit.scores) in {("subject", "predicate"), ("object",), ("subject",)}
        assert hit.score == pytest.approx(sum(weight[name] * value for name, value in hit.scores.items()))


def shows(collection, language, place, query, margin):
    """Whether an image shows a fact: on the units it names, it is about as near as the nearest other known fact."""
    (target,), (mask,) = language.embed([query])
    vector = collection["vectors"][place].astype(np.float64)

    def distance(other):
        return ((vector - other) ** 2).sum(axis=-1)[mask].sum()

    targets, masks = language.embed(FACTS)
    rivals = {}
    for fact, other, has in zip(FACTS, targets, masks, strict=True):
        units = tuple(unit for unit, wanted in zip(fact.units, mask, strict=False) if wanted)
        if (has | ~mask).all() and units != tuple(filter(None, query.units)):
            rivals[units] = distance(other)
    nearest, mean = min(rivals.values()), sum(rivals.values()) / len(rivals)
    return distance(target) <= nearest + margin * (mean - nearest)


@pytest.mark.parametrize("margin", [0, 0.3, 0.9])
@pytest.mark.parametrize("unwanted", [["<person>"], ["<*, riding, bike>"], ["<dog>", "<*, holding>"], ["<*, *, golf>"]])
def test_images_that_show_an_unwanted_fact_are_left_out_and_no_others(index, collection, language, unwanted, margin):
    query = FactQuery.parse("<person, *, bike>")
    ranking, _ = brute_force(collection, language, query)
    places = {name: place for place, name in enumerate(collection["ids"])}
    parsed = [FactQuery.parse(each) for each in unwanted]
    expected = [
        name for name in ranking if not any(shows(collection, language, places[name], each, margin) for each in parsed)
    ]
    assert 0 < len(expected) < len(ranking)
    options = {"without": unwanted, "margin": margin}
    assert [hit.id for hit in index.query(query, k=500, **options)] == expected
    assert [hit.id for hit in index.query(query, k=5, **options)] == expected[:5]
    assert [hit.id for hit in index.query(query, k=5, offset=7, **options)] == expected[7:12]


@pytest.mark.parametrize("margin", [-0.1, 1.5, float("nan")])
def test_a_margin_that_makes_no_sense_is_refused(index, margin):
    with pytest.raises(FactIndexError, match="margin must be from 0"):
        index.query("<dog>", without=["<person>"], margin=margin)


def test_a_fact_that_nothing_can_be_told_from_cannot_be_excluded(tmp_path, collection, language):
    index = FactIndex.create(tmp_path / "i", **collection, language=language, model="m", known_facts=[Fact("dog")])
    with pytest.raises(FactIndexError, match="no other fact to compare <dog> with"):
        index.query("<person>", without=["<dog>"])


def test_a_threshold_cuts_the_ranking_where_the_score_falls_below(index):
    everything = index.query("<person, *, bike>", k=500)
    threshold = everything[17].score
    expected = [hit for hit in everything if hit.score >= threshold]
    assert index.query("<person, *, bike>", k=500, threshold=threshold) == expected
    assert index.query("<person, *, bike>", k=5, offset=15, threshold=threshold) == expected[15:20]
    assert index.query("<dog>", threshold=1.0) == []


@pytest.mark.parametrize(
    "options",
    [{}, {"where": "vendor is null"}, {"without": ["<*, riding>"]}, {"also": ["<dog>"]}, {"weights": (1, 2, 3)}],
)
def test_pages_partition_the_ranking(index, options):
    ranking = index.query("<person, *, bike>", k=500, **options)
    pages = [index.query("<person, *, bike>", k=7, offset=offset, **options) for offset in range(0, 140, 7)]
    assert [hit for page in pages for hit in page] == ranking
    with pytest.raises(FactIndexError, match="offset"):
        index.query("<dog>", offset=-1)


# By image


def test_similar_images_are_the_nearest_by_all_units(index, collection):
    vector = collection["vectors"][17]
    distances = ((collection["vectors"].astype(np.float64) - vector) ** 2).sum(axis=(1, 2))
    order = sorted(range(120), key=lambda place: (distances[place], collection["ids"][place]))
    assert [hit.id for hit in index.similar(vector, k=12)] == [collection["ids"][place] for place in order[:12]]
    assert index.similar(vector, k=1)[0].score == 0.0
    kept = [name for name in (collection["ids"][place] for place in order) if name.endswith("7.png")]
    assert [hit.id for hit in index.similar(vector, k=3, where="id like '%7.png'", offset=1)] == kept[1:4]


def test_the_facts_of_an_image_are_ranked_by_the_evidence_for_them(index, collection, language):
    vector = collection["vectors"][5].astype(np.float64)
    expected, even = [], []
    for position in range(3):
        units = {fact.units[position] for fact in FACTS if fact.order > position}
        part = collection["vectors"][:, position].astype(np.float64)
        distances = np.sort([((part - language.unit(unit)) ** 2).sum(axis=1) for unit in units], axis=0)
        expected.append(distances[0].mean())
        even.append(distances[:2].mean())
    scores = {}
    for fact in FACTS:
        distances = [((vector[place] - language.unit(unit)) ** 2).sum() for place, unit in enumerate(fact.units)]
        scores[fact] = sum((b - d) / e for d, b, e in zip(distances, even, expected, strict=False))
    shown = index.facts_of(vector)
    assert [each.fact for each in shown] == sorted(FACTS, key=lambda fact: (-scores[fact], fact))
    assert [each.score for each in shown] == pytest.approx([scores[each.fact] for each in shown])
    assert index.facts_of(vector, k=2) == shown[:2]
    with pytest.raises(FactIndexError, match="at least 1"):
        index.facts_of(vector, k=0)


@pytest.mark.parametrize("vector", [np.zeros((3, 7)), np.zeros(24), np.full((3, 8), np.nan)])
def test_a_vector_of_another_space_is_refused(index, vector):
    for ask in (index.similar, index.facts_of):
        with pytest.raises(FactIndexError, match="3 x 8"):
            ask(vector)


# Plain sentences


def test_a_sentence_asks_what_its_reading_says(index):
    def ids(query, **options):
        return [hit.id for hit in index.query(query, k=500, **options)]

    assert ids("a man riding bikes") == ids("<person, riding, bike>")
    assert ids("person riding a bike but not a dog") == ids("<person, riding, bike>", without=["<*, *, dog>"])
    assert ids("dogs and people") == ids("<dog>", also=["<person>"])
    assert ids("dog or woman") == ids("<dog>", any_of=["<woman>"])
    assert index.query_many(["dog or woman", "<dog>"], k=9) == [
        index.query("dog or woman", k=9),
        index.query("<dog>", k=9),
    ]
    with pytest.raises(FactError, match="more than one fact"):
        index.query("<dog>", without=["person or woman"])


def test_of_alternatives_the_best_score_per_unit_counts(index, collection, language):
    hits = index.query("<person, riding>", k=500, any_of=["<dog>"])
    assert sorted(hit.id for hit in hits) == sorted(collection["ids"])
    one = {hit.id: hit.score / 2 for hit in index.query("<person, riding>", k=500)}
    other = {hit.id: hit.score for hit in index.query("<dog>", k=500)}
    best = {name: max(one[name], other[name]) for name in one}
    assert [hit.id for hit in hits] == sorted(best, key=lambda name: (-best[name], name))
    assert index.query("<person, riding>", k=7, offset=5, any_of=["<dog>"]) == hits[5:12]


# Filters


def test_filters_leave_the_ranking_of_those_that_pass(index, collection, language):
    query = FactQuery.parse("<person, *, bike>")
    ranking, _ = brute_force(collection, language, query)
    known = {
        name: (fact, entry)
        for name, fact, entry in zip(*(collection[key] for key in ("ids", "facts", "metadata")), strict=True)
    }
    for where, test in {
        "vendor = 'x'": lambda name: "vendor" in known[name][1],
        "vendor is null and split = 'test'": lambda name: "vendor" not in known[name][1],
        "fact = '<dog>' or fact is null": lambda name: known[name][0] in (None, Fact("dog")),
        "id like 'set/1_.png'": lambda name: len(name) == 10 and name[4] == "1",
        "path = '/pictures/set/3.png'": lambda name: name == "set/3.png",
        "model = 'm1' and metadata.vendor = 'x'": lambda name: "vendor" in known[name][1],
        "model = 'm2'": lambda name: False,
        "  ": lambda name: True,
    }.items():
        expected = [name for name in ranking if test(name)]
        assert [hit.id for hit in index.query(query, k=200, where=where)] == expected, where
        assert sorted(item["id"] for item in index.items(where)) == sorted(expected)
        assert [[hit.id for hit in hits] for hits in index.query_many([query], k=3, where=where)] == [expected[:3]]


def test_a_column_that_does_not_exist_is_named_with_those_that_do(index):
    with pytest.raises(FactIndexError, match=r"no column 'splt'.*split, vendor"):
        index.query("<dog>", where="splt = 'test'")
