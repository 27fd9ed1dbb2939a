import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlearn.errors import FactlearnError
from factlearn.evaluation.facts import evaluate_vectors, relevance_matrix
from factlearn.evaluation.ranking import average_precision
from factlearn.facts import Fact, FactQuery, Relevance

PERSON, RIDING = Fact("person"), Fact("person", "riding")
BIKE, HORSE, DOG = Fact("person", "riding", "bike"), Fact("person", "riding", "horse"), Fact("dog")
FACTS = (PERSON, RIDING, BIKE, HORSE, DOG)
UNIT = st.sampled_from(["person", "dog", "riding", "bike"])
UNITS = st.lists(UNIT, min_size=1, max_size=3)
ASKED = st.lists(st.none() | UNIT, min_size=1, max_size=3).filter(any)


def targets_of(facts, dimension=6):
    """Language vectors that depend on each unit's word alone."""
    words = sorted({unit for fact in facts for unit in fact.units})
    vector = dict(zip(words, np.random.default_rng(0).normal(size=(len(words), dimension)), strict=True))
    targets, mask = np.zeros((len(facts), 3, dimension), np.float32), np.zeros((len(facts), 3), bool)
    for row, fact in enumerate(facts):
        for position, unit in enumerate(fact.units):
            targets[row, position], mask[row, position] = vector[unit], True
    return targets, mask


def images_of(facts, count, noise, seed=0):
    """Image vectors at their fact's target plus noise; the units a fact lacks are anywhere."""
    rng = np.random.default_rng(seed)
    shown = [facts[place] for place in rng.integers(0, len(facts), count)]
    targets, mask = targets_of(facts)
    rows = [facts.index(fact) for fact in shown]
    elsewhere = rng.normal(size=(count, *targets.shape[1:]))
    vectors = np.where(mask[rows][..., None], targets[rows] + noise * elsewhere, 5 * elsewhere)
    return vectors.astype(np.float32), shown


def brute_force_ap(gallery, fact, rule):
    vectors, shown, ids = gallery
    target, mask = targets_of(FACTS)
    row = FACTS.index(fact)
    scores = [
        -float((((vector - target[row]) ** 2).sum(axis=-1) * mask[row]).sum()) for vector in vectors.astype(float)
    ]
    relevant = [FactQuery.of(fact).matches(other, rule) for other in shown]
    return average_precision(scores, relevant, ids)


@pytest.fixture(scope="module")
def test_set():
    vectors, shown = images_of(FACTS, 80, noise=0.8)
    return vectors, shown, [f"{number:x}.png" for number in range(80)]


@pytest.mark.parametrize("rule", list(Relevance))
def test_each_average_precision_equals_the_plain_computation_on_its_gallery(test_set, rule):
    vectors, shown, ids = test_set
    targets = targets_of(FACTS)
    tasks = {"one": (PERSON, BIKE), "two": (HORSE, DOG, RIDING)}
    result = evaluate_vectors(
        vectors, shown, FACTS, targets, ids=ids, tasks=tasks, subsets={"sports": [BIKE, HORSE]}
    ).under(rule)
    for fact in FACTS:
        expected = brute_force_ap(test_set, fact, rule)
        assert result.whole.average_precision[str(fact)] == pytest.approx(expected)
    for name, facts in tasks.items():
        inside = [place for place, fact in enumerate(shown) if fact in facts]
        gallery = vectors[inside], [shown[place] for place in inside], [ids[place] for place in inside]
        expected = [brute_force_ap(gallery, fact, rule) for fact in facts]
        assert result.tasks[name].images == len(inside)
        assert result.tasks[name].map == pytest.approx(np.mean(expected))
    sports = [result.whole.average_precision[str(fact)] for fact in (BIKE, HORSE)]
    assert result.subsets["sports"].map == pytest.approx(np.mean(sports))
    assert result.subsets["sports"].images == len(vectors)


def test_perfect_vectors_are_found_first_and_recognised_first():
    vectors, shown = images_of(FACTS, 60, noise=0.0)
    result = evaluate_vectors(vectors, shown, FACTS, targets_of(FACTS))
    assert result.map_all_prefix == 1.0
    assert result.exact.whole.average_precision[str(BIKE)] == 1.0
    assert result.prefix.image_to_fact.accuracy_at == {"1": 1.0, "5": 1.0, "10": 1.0}
    assert result.prefix.image_to_fact.mrr == 1.0


@pytest.mark.parametrize("rule", list(Relevance))
def test_image_to_fact_ranks_facts_by_mean_distance_over_their_units(test_set, rule):
    vectors, shown, _ = test_set
    targets, mask = targets_of(FACTS)
    ranks = []
    for vector, fact in zip(vectors.astype(float), shown, strict=True):
        distance = (((vector - targets) ** 2).sum(axis=-1) * mask).sum(axis=-1) / mask.sum(axis=-1)
        right = [FactQuery.of(other).matches(fact, rule) for other in FACTS]
        best = distance[right].min()
        ranks.append(1 + sum(d <= best for d, ok in zip(distance, right, strict=True) if not ok))
    found = evaluate_vectors(vectors, shown, FACTS, (targets, mask)).under(rule).image_to_fact
    assert found.mrr == pytest.approx(np.mean([1 / rank for rank in ranks]))
    assert found.accuracy_at["1"] == pytest.approx(np.mean([rank == 1 for rank in ranks]))
    assert found.images == len(vectors)


def test_a_model_that_maps_every_image_and_fact_to_one_point_recognises_nothing():
    mask = targets_of(FACTS)[1]
    same = np.ones((len(FACTS), 3, 4), np.float32)
    result = evaluate_vectors(same, list(FACTS), FACTS, (same, mask))
    assert result.exact.image_to_fact.accuracy_at["1"] == 0.0
    assert result.exact.image_to_fact.mrr == pytest.approx(1 / len(FACTS))


def test_facts_without_test_images_are_listed_and_not_evaluated():
    vectors, shown = images_of((BIKE, DOG), 20, noise=0.5)
    result = evaluate_vectors(vectors, shown, FACTS, targets_of(FACTS), tasks={"horses": [HORSE]})
    assert set(result.exact.whole.not_evaluated) == {str(PERSON), str(RIDING), str(HORSE)}
    assert set(result.prefix.whole.not_evaluated) == {str(HORSE)}
    assert result.exact.tasks["horses"].map is None
    assert result.exact.tasks["horses"].images == 0


def test_images_of_unknown_facts_stay_in_the_gallery_but_are_not_recognised():
    vectors, shown = images_of(FACTS, 40, noise=0.1)
    known = (BIKE, DOG)
    result = evaluate_vectors(vectors, shown, known, targets_of(known))
    counts = Counter(shown)
    assert result.exact.whole.images == 40
    assert result.exact.image_to_fact.images == counts[BIKE] + counts[DOG]


def test_without_an_image_of_a_known_fact_there_is_nothing_to_recognise():
    vectors, shown = images_of((DOG,), 3, noise=0.1)
    result = evaluate_vectors(vectors, shown, (BIKE,), targets_of((BIKE,)))
    assert result.exact.image_to_fact is None
    assert result.map_all is None


def test_the_json_has_the_headline_numbers_on_top_and_no_nan(test_set):
    vectors, shown, ids = test_set
    result = evaluate_vectors(vectors, shown, FACTS, targets_of(FACTS), ids=ids, tasks={"one": [DOG]})
    written = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert list(written)[:2] == ["map_all", "map_all_prefix"]
    assert written["map_all"] == written["exact"]["whole"]["map"] == result.map_all
    assert written["map_all_prefix"] == written["prefix"]["whole"]["map"] == result.map_all_prefix
    assert written["exact"]["tasks"]["one"]["average_precision"].keys() == {"<dog>"}


@settings(max_examples=200, deadline=None)
@given(st.lists(ASKED, max_size=5), st.lists(UNITS, max_size=5), st.sampled_from(Relevance))
def test_the_relevance_matrix_equals_asking_each_query_about_each_fact(asked, given_units, rule):
    queries, facts = [FactQuery(tuple(units)) for units in asked], [Fact(*units) for units in given_units]
    expected = [[query.matches(fact, rule) for fact in facts] for query in queries]
    assert relevance_matrix(queries, facts, rule).tolist() == (expected if facts else [[]] * len(queries))


def refused(message, **changes):
    vectors, shown = images_of(FACTS, 10, noise=0.1)
    arguments = {"vectors": vectors, "image_facts": shown, "facts": FACTS, "targets": targets_of(FACTS)}
    with pytest.raises(FactlearnError, match=message):
        evaluate_vectors(**{**arguments, **changes})


def test_arguments_that_do_not_fit_are_refused():
    refused("9 vectors for 10 image facts", vectors=np.zeros((9, 3, 6), np.float32))
    refused("targets for 1 facts", facts=[DOG])
    refused("NaN", vectors=np.full((10, 3, 6), np.nan, np.float32))
    refused("one fact twice", facts=[DOG] * 5)
    refused("'sports' names <cat>", subsets={"sports": [Fact("cat")]})
    refused("'x' names <cat>", tasks={"x": [Fact("cat")]})
    refused("1 ids", ids=["a"])


def test_an_image_of_several_facts_is_relevant_by_any_of_them_and_counts_once(test_set):
    vectors, shown, ids = test_set
    several = [[fact, DOG] if place % 3 == 0 and fact != DOG else [fact] for place, fact in enumerate(shown)]
    result = evaluate_vectors(vectors, several, FACTS, targets_of(FACTS), ids=ids, tasks={"dogs": [DOG]})
    target, mask = (array[FACTS.index(DOG)] for array in targets_of(FACTS))
    scores = -(np.square(vectors.astype(float) - target).sum(axis=-1) * mask).sum(axis=1)
    expected = average_precision(scores, [DOG in facts for facts in several], ids)
    assert result.exact.whole.average_precision[str(DOG)] == pytest.approx(expected, abs=1e-12)
    assert result.exact.whole.images == 80
    assert result.exact.tasks["dogs"].images == sum(DOG in facts for facts in several)
    plain = evaluate_vectors(vectors, shown, FACTS, targets_of(FACTS), ids=ids)
    assert result.exact.image_to_fact.accuracy_at["1"] >= plain.exact.image_to_fact.accuracy_at["1"]
    assert plain == evaluate_vectors(vectors, [[fact] for fact in shown], FACTS, targets_of(FACTS), ids=ids)
    with pytest.raises(FactlearnError, match="without a fact"):
        evaluate_vectors(vectors, [(), *several[1:]], FACTS, targets_of(FACTS))
