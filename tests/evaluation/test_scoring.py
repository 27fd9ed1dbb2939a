import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlearn.errors import FactlearnError
from factlearn.evaluation.scoring import masked_scores, unit_scores


def plain_definition(vectors, targets, mask):
    difference = vectors[None].astype(np.longdouble) - targets[:, None].astype(np.longdouble)
    return -((difference**2).sum(axis=-1) * mask[:, None]).sum(axis=-1)


def some(seed, *, images=37, queries=9, dimension=5, scale=1.0, offset=0.0):
    rng = np.random.default_rng(seed)
    vectors = (rng.normal(size=(images, 3, dimension)) * scale + offset).astype(np.float32)
    targets = (rng.normal(size=(queries, 3, dimension)) * scale + offset).astype(np.float32)
    mask = rng.random((queries, 3)) < 0.6
    return vectors, targets, mask


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1e-6, 1.0, 1e4]), st.sampled_from([0.0, 10.0, 1e4]))
def test_scores_equal_the_plain_definition_at_any_scale_and_offset(seed, scale, offset):
    vectors, targets, mask = some(seed, scale=scale, offset=offset)
    expected = plain_definition(vectors, targets, mask)
    tolerance = 1e-13 * max(1.0, np.abs(expected).max()) if offset <= scale else 1e-9 * np.abs(expected).max()
    np.testing.assert_allclose(masked_scores(vectors, targets, mask), expected, rtol=1e-9, atol=tolerance)


def test_scores_over_several_chunks_equal_those_of_each_image_alone():
    vectors, targets, mask = some(0, images=10_000, queries=3)
    whole = masked_scores(vectors, targets, mask)
    for image in (0, 4095, 4096, 9_999):
        alone = masked_scores(vectors[image : image + 1], targets, mask)
        np.testing.assert_allclose(whole[:, image : image + 1], alone, rtol=1e-13)


def test_a_perfect_image_scores_zero_and_none_scores_above():
    vectors, _, _ = some(1, scale=100.0)
    scores = masked_scores(vectors, vectors, np.ones((len(vectors), 3), bool))
    assert scores.max() <= 0
    np.testing.assert_allclose(np.diag(scores), 0, atol=1e-9)


def test_a_unit_left_open_weighs_nothing():
    vectors, targets, _ = some(2)
    mask = np.tile([True, False, True], (len(targets), 1))
    changed, changed_targets = vectors.copy(), targets.copy()
    changed[:, 1], changed_targets[:, 1] = 77.0, -5.0
    np.testing.assert_allclose(
        masked_scores(vectors, targets, mask), masked_scores(changed, changed_targets, mask), rtol=1e-12
    )


def test_unit_scores_add_up_to_the_score():
    vectors, targets, mask = some(3)
    by_unit = unit_scores(vectors, targets[0])
    np.testing.assert_allclose((by_unit * mask[0]).sum(axis=1), masked_scores(vectors, targets, mask)[0], rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_not_finite_is_refused_with_its_row(bad):
    vectors, targets, mask = some(4)
    vectors[5, 1, 2] = bad
    with pytest.raises(FactlearnError, match=r"image vectors.*row 5"):
        masked_scores(vectors, targets, mask)
    with pytest.raises(FactlearnError, match="query targets"):
        masked_scores(targets, vectors, np.ones((len(vectors), 3), bool))


@pytest.mark.parametrize("shape", [(4, 3), (4, 2, 5), (4, 3, 6)])
def test_arrays_that_do_not_fit_are_refused(shape):
    _, targets, mask = some(5)
    with pytest.raises(FactlearnError, match=r"shape|fit together"):
        masked_scores(np.zeros(shape, np.float32), targets, mask)
