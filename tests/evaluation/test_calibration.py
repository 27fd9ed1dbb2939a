"""Calibration against plain definitions."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from factlearn.evaluation.beliefs import FactBeliefs, HeadBeliefs
from factlearn.evaluation.calibration import expected_calibration_error, fit_logistic, halves, sigmoid
from factlearn.evaluation.heads import HeadCalibration


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_the_expected_calibration_error_equals_its_definition(pairs):
    chances, right = np.array([p for p, _ in pairs]), np.array([y for _, y in pairs])
    plain = 0.0
    for low in range(10):
        inside = [(p, y) for p, y in pairs if min(int(p * 10), 9) == low]
        if inside:
            mean, share = np.mean([p for p, _ in inside]), np.mean([y for _, y in inside])
            plain += len(inside) / len(pairs) * abs(mean - share)
    assert expected_calibration_error(chances, right) == pytest.approx(plain, abs=1e-12)


def test_a_logistic_fit_equals_that_of_scikit_learn_on_the_smoothed_targets():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(500, 2)) * [3, 0.1] + [7, -2]
    right = rng.random(500) < sigmoid(features @ [0.8, 9] + 12)
    weights = rng.uniform(0.2, 2, 500)
    good, bad = weights[right].sum(), weights[~right].sum()
    high, low = (good + 1) / (good + 2), 1 / (bad + 2)
    target = np.where(right, high, low)
    centre, spread = features.mean(0), features.std(0)
    oracle = LogisticRegression(C=1 / (1e-3 * weights.sum()), tol=1e-10, max_iter=1000)  # the same slight shrinkage
    doubled = np.concatenate([(features - centre) / spread] * 2)
    oracle.fit(doubled, np.repeat([1, 0], 500), np.concatenate([weights * target, weights * (1 - target)]))
    slopes = oracle.coef_[0] / spread
    found = fit_logistic(features, right, weights)
    np.testing.assert_allclose(found, [*slopes, oracle.intercept_[0] - slopes @ centre], rtol=1e-4)


def test_a_few_separable_answers_do_not_give_certainty():
    slope, constant = fit_logistic(np.array([[0.0], [1.0], [2.0]]), np.array([False, False, True]), np.ones(3))
    assert 0.5 < sigmoid(np.array([2 * slope + constant]))[0] < 0.95


def test_halves_depend_on_ids_alone():
    ids = [f"photo {number}" for number in range(400)]
    first = halves(ids)
    assert 150 < first.sum() < 250
    np.testing.assert_array_equal(halves(ids[::-1]), first[::-1])


def test_the_softmax_that_made_labels_is_found_again():
    rng = np.random.default_rng(1)
    targets = rng.normal(size=(6, 3, 4))
    mask = np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 1, 1], [1, 1, 1]], bool)
    vectors = targets[rng.integers(6, size=4000)] + rng.normal(size=(4000, 3, 4))
    true = FactBeliefs((0.9, 0.5, 0.7), (1.0, 0.4, 2.0), open=False)
    shares = true.shares(vectors, targets, mask)
    np.testing.assert_allclose(shares.sum(1), 1)
    drawn = (shares[:, :-1].cumsum(1) > rng.random((4000, 1))).argmax(1)
    found = FactBeliefs.fit(vectors, targets, mask, np.eye(6)[drawn], np.zeros((4000, 6), bool), 1)
    assert np.abs(found.shares(vectors, targets, mask) - shares).mean() < 0.01
    np.testing.assert_allclose(found.slope, true.slope, atol=0.1)


def test_a_fact_that_is_seen_too_often_is_worth_less():
    rng = np.random.default_rng(3)
    targets, mask = rng.normal(size=(5, 3, 4)), np.ones((5, 3), bool)
    vectors = targets[rng.integers(5, size=3000)] + rng.normal(size=(3000, 3, 4))
    true = FactBeliefs((0.5,) * 3, (1.0,) * 3, (-3.0, 0.0, 0.0, 0.0, 1.0), open=False)
    drawn = (true.shares(vectors, targets, mask)[:, :-1].cumsum(1) > rng.random((3000, 1))).argmax(1)
    found = FactBeliefs.fit(vectors, targets, mask, np.eye(5)[drawn], np.zeros((3000, 5), bool), 1)
    worth = np.array(found.worth) - found.worth[1]
    np.testing.assert_allclose(worth, true.worth, atol=0.4)
    again = FactBeliefs.from_json(found.to_json())
    np.testing.assert_array_equal(again.shares(vectors, targets, mask), found.shares(vectors, targets, mask))


def scores_of_two_heads(rng, count):
    """Heads that are sure of their own classes, the first one loudly; each is quiet about the other's images."""
    tasks, labels = rng.integers(2, size=count), rng.integers(3, size=count)
    scores = [rng.normal(size=(count, 3)) * loud for loud in (4.0, 1.0)]
    for head, loud in enumerate((12.0, 5.0)):
        own = np.flatnonzero(tasks == head)
        scores[head][own, labels[own]] += loud
    return scores, tasks, labels


def test_heads_compare_and_what_no_head_knows_is_none_of_these():
    rng = np.random.default_rng(2)
    scores, tasks, labels = scores_of_two_heads(rng, 600)
    ids = [str(number) for number in range(600)]
    found = HeadCalibration.fit(scores, tasks, labels, ids)
    assert found.measured["task_free"] > found.measured["task_free_surest_head"]
    assert found.measured["ece"] < 0.05
    strange = [rng.normal(size=(200, 3)) * loud for loud in (4.0, 1.0)]
    assert (found.probabilities(strange, [0, 1]).argmax(1) == 6).mean() > 0.5
    assert (found.probabilities(scores, [0, 1]).argmax(1) == 3 * tasks + labels).mean() > 0.8
    told = found.probabilities([scores[1]], [1], told=True)
    np.testing.assert_allclose(told[:, :-1].sum(1), 1)
    assert HeadCalibration.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_a_head_without_photos_keeps_its_numbers():
    scores, tasks, labels = scores_of_two_heads(np.random.default_rng(3), 200)
    rows = tasks == 1
    wanted = np.eye(6)[3 * tasks + labels]
    own = np.repeat(np.arange(2), 3)[None] == tasks[:, None]
    kept = ((0.3, 0.2, -5.0), (9.0, 9.0, 9.0))
    found = HeadBeliefs.fit([each[rows] for each in scores], wanted[rows], own[rows], kept)
    np.testing.assert_allclose(found.heads[0], kept[0])
    assert found.heads[1] != kept[1]
