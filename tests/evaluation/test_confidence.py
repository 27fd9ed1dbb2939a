"""The probability that images answer queries, on a simulated collection whose truth is known."""

import json

import numpy as np
import pytest

from factlearn.evaluation.calibration import expected_calibration_error
from factlearn.evaluation.confidence import FactCalibration, HeldOut, pattern_of
from factlearn.evaluation.scoring import masked_scores
from factlearn.facts import Fact, FactQuery
from factlearn.language import LanguageSpace

TASKS = {
    "rides": [Fact("person", "riding", "bike"), Fact("person", "riding", "kite"), Fact("person", "riding")],
    "things": [Fact("dog"), Fact("bike"), Fact("dog", "holding", "bike"), Fact("person", "holding", "dog")],
}
FACTS = sorted(fact for facts in TASKS.values() for fact in facts)


@pytest.fixture(scope="module")
def language(vectors_file):
    return LanguageSpace.open(str(vectors_file))


def photos(language, count, seed):
    rng = np.random.default_rng(seed)
    shown = [FACTS[place] for place in rng.integers(len(FACTS), size=count)]
    targets, mask = language.embed(shown)
    spread = np.linalg.norm(targets) / np.sqrt(mask.sum())
    noise = rng.normal(size=targets.shape) * spread * 0.35
    vectors = np.where(np.asarray(mask, bool)[..., None], targets, 0) + noise
    return HeldOut(vectors.astype(np.float32), [{fact} for fact in shown], [f"{seed}-{n}" for n in range(count)], TASKS)


@pytest.fixture(scope="module")
def calibration(language):
    return FactCalibration.fit(photos(language, 500, 0), language)


QUERIES = ["<dog>", "<bike>", "<person>", "<person, riding>", "<person, riding, bike>", "<*, *, bike>", "<*, riding>"]


def test_probabilities_of_first_hits_hold_on_photos_never_seen(calibration, language):
    others = photos(language, 500, 1)
    chances, rights = [], []
    for query in map(FactQuery.parse, QUERIES):
        found = calibration.probabilities(others.vectors, query, FACTS, language)
        right = np.array([any(query.matches(fact) for fact in shown) for shown in others.shown])
        assert found[right].mean() > found[~right].mean() + 0.2
        first = np.argsort(-masked_scores(others.vectors, *language.embed([query]))[0])[:100]
        chances.append(found[first])
        rights.append(right[first])
    assert expected_calibration_error(np.concatenate(chances), np.concatenate(rights)) < 0.13


def test_the_error_is_measured_on_the_other_half(calibration):
    for kind in ("facts", "wildcards"):
        assert calibration.measured[kind].keys() == {"10", "20", "all"}
        assert all(0 <= error < 0.15 for error in calibration.measured[kind].values())


def test_the_numbers_survive_json_and_do_not_depend_on_the_order_of_photos(calibration, language):
    assert FactCalibration.from_json(json.loads(json.dumps(calibration.to_json()))) == calibration
    held_out = photos(language, 500, 0)
    turned = FactCalibration.fit(held_out.of(np.arange(500)[::-1]), language)
    for pattern, numbers in calibration.patterns.items():
        assert turned.patterns[pattern] == pytest.approx(numbers, rel=1e-3, abs=1e-3)


def test_few_photos_or_patterns_without_evidence_give_no_probability(calibration, language):
    assert FactCalibration.fit(photos(language, 9, 2), language) is None
    only = {"things": [Fact("dog"), Fact("bike")]}
    found = photos(language, 200, 3)
    rows = np.flatnonzero([shown <= {*only["things"]} for shown in found.shown])
    few = found.of(rows)
    small = FactCalibration.fit(HeldOut(few.vectors, few.shown, few.ids, only), language)
    query = FactQuery.parse("<*, riding>")
    assert pattern_of(query) not in small.patterns
    assert small.probabilities(few.vectors, query, only["things"], language) is None


def test_a_fact_never_taught_is_seldom_seen(calibration, language):
    others = photos(language, 400, 4)
    chances = calibration.probabilities(others.vectors, FactQuery.parse("<dog, riding, kite>"), FACTS, language)
    assert (chances >= 0.5).mean() < 0.1
