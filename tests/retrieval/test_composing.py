"""Facts never taught are found by their units, as a plain reading of the definition finds them."""

import math

import numpy as np
import pytest

from factlearn.evaluation.confidence import FactCalibration, HeldOut
from factlearn.facts import Fact, FactQuery
from factlearn.retrieval import FactIndex, composing
from factlearn.retrieval.about import Version
from factlearn.retrieval.confidence import BY_MEANING, BY_UNITS

TAUGHT = (
    Fact("person", "riding", "bike"), Fact("person", "holding", "dog"), Fact("woman", "riding", "mountain bike"),
    Fact("horse"), Fact("dog"), Fact("golf"),
)  # fmt: skip
RIDER = "<person, riding, horse>"


def mixed(language, shares, rng):
    """What a model that is torn between facts gives: the mean of their targets, with noise."""
    targets, _ = language.embed(list(shares))
    noise = rng.normal(size=targets[0].shape) * 0.1
    return (np.einsum("f,fud->ud", list(shares.values()), targets) + noise).astype(np.float32)


def version(name, language, taught):
    rng = np.random.default_rng(3)
    shown = [fact for fact in taught for _ in range(8)]
    vectors = np.stack([mixed(language, {fact: 1}, rng) for fact in shown])
    tasks = {"one": taught[::2], "two": taught[1::2]}
    found = FactCalibration.fit(
        HeldOut(vectors, [{f} for f in shown], [str(n) for n in range(len(shown))], tasks), language
    )
    return Version(name, "m", calibration=found.to_json(), taught=tuple(map(str, taught)))


def make_riders(place, language):
    """Photos of taught facts, and three of riders that look like cyclists, a little like horses."""
    rng = np.random.default_rng(5)
    shares = [{fact: 1} for fact in TAUGHT for _ in range(20)] + [{TAUGHT[0]: 0.6, Fact("horse"): 0.4}] * 3
    vectors = np.stack([mixed(language, each, rng) for each in shares])
    ids = [f"{number:03}" for number in range(len(shares))]
    split = [{"split": "test" if number % 2 else "train"} for number in range(len(ids))]
    return FactIndex.create(
        place, vectors, ids, paths=ids, language=language, model=version("m", language, TAUGHT),
        known_facts=TAUGHT, metadata=split,
    )  # fmt: skip


@pytest.fixture
def riders(tmp_path, language):
    return make_riders(tmp_path / "riders", language)


def plainly(index, query, weights=(1, 1, 1)):
    """The ids in the order of the definition, with scores."""
    scores = []
    for item, vector in zip(index.items(), index.vectors, strict=True):
        entry = index.models[item["model"]]
        taught = [Fact.parse(text) for text in entry.taught]
        shares = FactCalibration.from_json(entry.calibration).shares(vector[None], taught, index.language)[0]
        total = 0.0
        for place, unit in enumerate(query.units):
            if unit is None or not weights[place]:
                continue
            there = [fact for fact in taught if len(fact.units) > place and fact.units[place] == unit]
            having = there or [fact for fact in taught if unit in fact.units]
            belief = sum(shares[taught.index(fact)] for fact in having)
            for fact in [] if there else taught:
                if fact not in having and len(fact.units) > place:
                    one, other = index.language.unit(unit), index.language.unit(fact.units[place])
                    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
                    belief += shares[taught.index(fact)] * max(cosine, 0) ** 6
            rarity = -math.log(max(len(having), 1) / (len(taught) + 1))
            total += weights[place] * rarity * math.log(belief + 1e-4)
        scores.append((-total, item["id"]))
    return [(name, -score) for score, name in sorted(scores)]


def found(hits):
    return [(hit.id, pytest.approx(hit.score, rel=1e-6)) for hit in hits]


def test_a_fact_never_taught_is_found_by_what_was_taught_of_its_units(riders):
    hits = riders.query(RIDER, 3)
    assert {hit.id for hit in hits} == {"120", "121", "122"}
    assert all(hit.probability is None and set(hit.scores) == {"subject", "predicate", "object"} for hit in hits)
    assert riders.confidence.never_taught(riders.read(RIDER)) == {FactQuery.parse(RIDER): BY_UNITS}


@pytest.mark.parametrize(
    ("text", "weights"), [(RIDER, (1, 1, 1)), (RIDER, (1, 0, 2)), ("<*, *, horse>", (1, 1, 1)), ("<dog, riding>", None)]
)
def test_images_are_ranked_as_the_definition_says(riders, text, weights):
    expected = plainly(riders, FactQuery.parse(text), weights or (1, 1, 1))
    assert expected == found(riders.query(text, len(riders), weights=weights))
    assert expected[5:15] == found(riders.query(text, 10, offset=5, weights=weights))


def test_images_of_several_models_are_judged_by_what_each_was_taught(riders, language):
    rng = np.random.default_rng(9)
    vectors = np.stack([mixed(language, {TAUGHT[0]: 0.6, Fact("horse"): 0.4}, rng) for _ in range(2)])
    more = (*TAUGHT, Fact("mountain"))
    riders.add(vectors, ["new 1", "new 2"], paths=["a", "b"], model=version("m2", language, more))
    assert plainly(riders, FactQuery.parse(RIDER)) == found(riders.query(RIDER, 200))


def test_filters_exclusions_and_thresholds_hold(riders):
    expected = plainly(riders, FactQuery.parse(RIDER))
    some = riders.query(RIDER, 200, where="split = 'test'")
    assert found(some) == [each for each in expected if int(each[0]) % 2]
    assert len(riders.query(RIDER, 200, threshold=expected[9][1])) == 10
    shown = {hit.id for hit in riders.query(RIDER, 200, without=["<horse>"])}
    assert shown
    assert not shown & {f"{number:03}" for number in range(60, 80)}


def test_in_large_indexes_the_images_nearest_to_each_unit_are_looked_at(riders, monkeypatch):
    monkeypatch.setattr(composing, "_LOOKED_AT", 30)
    assert found(riders.query(RIDER, 3)) == plainly(riders, FactQuery.parse(RIDER))[:3]


def test_many_queries_are_answered_as_one_by_one(riders):
    queries = ["<dog>", RIDER, "<person, riding, *>", "<*, *, horse>"]
    assert riders.query_many(queries, 7) == [riders.query(query, 7) for query in queries]


@pytest.mark.parametrize("weights", [(1, 0, 1), (1, 1, 0), (2, 1, 0.5)])
def test_weights_decide_alike_for_one_query_and_for_many(riders, weights):
    """A word that was never taught does not count where its weight is 0."""
    queries = ["<woman, mountain, bike>", "<person, riding, mountain>", RIDER]
    one_by_one = [riders.query(query, 9, weights=weights) for query in queries]
    assert riders.query_many(queries, 9, weights=weights) == one_by_one
    ways = [riders.confidence.never_taught(riders.read(query), weights) for query in queries]
    composed = [BY_UNITS in way.values() for way in ways]
    assert composed == [weights[1] == 0, weights[2] == 0, True]


def test_words_that_were_never_taught_are_answered_by_their_vectors(riders, language):
    text = "<person, riding, mountain>"
    assert riders.confidence.never_taught(riders.read(text)) == {FactQuery.parse(text): BY_MEANING}
    target, mask = language.embed([FactQuery.parse(text)])
    distances = (np.square(riders.vectors - target[0]).sum(-1) * mask[0]).sum(1)
    assert riders.query(text, 1)[0].id == riders.ids[int(distances.argmin())]
    assert riders.query(text, 1)[0].probability is not None
