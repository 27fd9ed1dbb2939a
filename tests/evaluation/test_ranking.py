import itertools

import numpy as np
import pytest
import pytrec_eval
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from factlearn.errors import FactlearnError
from factlearn.evaluation.ranking import average_precision, mean_average_precision

# Few distinct values make heavy ties; the others are where float32 and float64 order differently.
TIED = st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1.0])
CLOSE = st.sampled_from([1.0, 1.0 + 1e-9, 1.0 - 1e-9, 1.0 + 1e-7, -1e-46, 1e-46, 1e30, -1e30])
ANY = st.floats(min_value=-1e30, max_value=1e30)


@st.composite
def rankings(draw):
    """Scores, relevance and ids of a few queries over the same images, as text ids in any order."""
    queries, images = draw(st.integers(1, 3)), draw(st.integers(1, 40))
    values = draw(st.sampled_from([TIED, CLOSE, ANY]))
    scores = draw(hnp.arrays(np.float64, (queries, images), elements=values))
    relevant = draw(hnp.arrays(bool, (queries, images)))
    letters = st.text(alphabet="aAzZ09/_é￿𝄞", min_size=1, max_size=6)
    ids = draw(st.lists(letters, min_size=images, max_size=images, unique=True))
    return scores, relevant, ids


def trec_eval_map(scores, relevant, ids):
    judged = {str(q): dict(zip(ids, map(int, row), strict=True)) for q, row in enumerate(relevant)}
    run = {str(q): dict(zip(ids, map(float, row), strict=True)) for q, row in enumerate(scores)}
    results = pytrec_eval.RelevanceEvaluator(judged, {"map"}).evaluate(run)
    return np.array([results[str(q)]["map"] for q in range(len(scores))])


@settings(max_examples=400, deadline=None)
@given(rankings())
def test_average_precision_equals_trec_eval_to_the_last_bit(ranking):
    scores, relevant, ids = ranking
    ours = mean_average_precision(scores, relevant, ids)
    np.testing.assert_array_equal(ours.per_query, trec_eval_map(scores, relevant, ids))
    np.testing.assert_array_equal(ours.evaluated, relevant.any(axis=1))


@pytest.mark.parametrize("levels", [1, 2, 50, 10**6])
@pytest.mark.parametrize("share", [0.001, 0.1, 0.9])
def test_average_precision_equals_trec_eval_on_large_galleries(levels, share):
    rng = np.random.default_rng(levels)
    scores = rng.integers(-levels, levels, (3, 20_000)) / levels
    relevant = rng.random(scores.shape) < share
    ids = [f"photos/{number}.jpg" for number in rng.permutation(scores.shape[1])]
    ours = mean_average_precision(scores, relevant, ids)
    np.testing.assert_array_equal(ours.per_query, trec_eval_map(scores, relevant, ids))


@pytest.mark.parametrize("outlier", [1e30, -1e30, np.inf, -np.inf, 3.4e38, -3.4e38, 1e300])
def test_an_extreme_score_changes_no_other_rank(outlier):
    rng = np.random.default_rng(0)
    scores, relevant = rng.normal(size=500), rng.random(500) < 0.1
    scores[7], relevant[7] = outlier, False
    without = average_precision(np.delete(scores, 7), np.delete(relevant, 7))
    if outlier < 0:
        assert average_precision(scores, relevant) == without
    else:
        assert average_precision(scores, relevant) < without


def test_average_precision_is_the_plain_definition_over_every_small_ranking():
    for relevant in itertools.product([False, True], repeat=7):
        if not any(relevant):
            continue
        hits = np.cumsum(relevant)
        precision = [hits[i] / (i + 1) for i in range(7) if relevant[i]]
        assert average_precision(np.arange(7, 0, -1), relevant) == pytest.approx(sum(precision) / len(precision))


@settings(max_examples=100, deadline=None)
@given(rankings(), st.randoms(use_true_random=False))
def test_the_order_in_which_images_are_listed_does_not_matter(ranking, random):
    scores, relevant, ids = ranking
    order = list(range(len(ids)))
    random.shuffle(order)
    shuffled = mean_average_precision(scores[:, order], relevant[:, order], [ids[place] for place in order])
    np.testing.assert_array_equal(shuffled.per_query, mean_average_precision(scores, relevant, ids).per_query)


@example(np.float32(1.0))
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_minus_zero_ties_with_zero_and_each_score_with_itself(value):
    scores = [value, value] if value else [-0.0, 0.0]
    assert average_precision(scores, [True, False], ["a", "b"]) == 0.5
    assert average_precision(scores, [True, False], ["b", "a"]) == 1.0


def test_without_ids_the_later_of_two_equal_images_comes_first():
    assert average_precision([1.0, 1.0], [False, True]) == 1.0


def test_a_query_without_relevant_images_is_reported_and_left_out_of_the_mean():
    result = mean_average_precision([[2.0, 1.0], [2.0, 1.0]], [[False, True], [False, False]])
    assert result.evaluated.tolist() == [True, False]
    assert result.per_query.tolist() == [0.5, 0.0]
    assert result.mean == 0.5


def test_the_mean_over_no_evaluated_query_is_none():
    assert mean_average_precision(np.zeros((1, 2)), np.zeros((1, 2), bool)).mean is None
    assert mean_average_precision(np.zeros((0, 2)), np.zeros((0, 2), bool)).mean is None
    assert mean_average_precision(np.zeros((2, 0)), np.zeros((2, 0), bool)).mean is None


@pytest.mark.parametrize(
    ("scores", "relevant", "ids", "message"),
    [
        ([1.0, np.nan], [True, False], None, "NaN"),
        ([1.0, np.nan], [False, False], None, "NaN"),
        ([1.0, 2.0], [False, False], None, "at least one relevant"),
        ([1.0, 2.0], [True], None, "queries x images"),
        ([1.0, 2.0], [True, False], ["a"], "1 ids for 2"),
        ([1.0, 2.0], [True, False], ["a", "a"], "'a' appears twice"),
    ],
)
def test_rankings_that_mean_nothing_are_refused(scores, relevant, ids, message):
    with pytest.raises(FactlearnError, match=message):
        average_precision(scores, relevant, ids)
