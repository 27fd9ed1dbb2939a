import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlearn.errors import FactIndexError
from factlearn.retrieval.search import RowSearcher, pack, unpack

MASKS = [mask for mask in itertools.product([False, True], repeat=3) if any(mask)]


def brute_force(vectors, target, mask, names):
    difference = vectors.astype(np.float64) - target.astype(np.float64)
    scores = -((difference**2).sum(axis=-1) * np.array(mask)).sum(axis=-1)
    return sorted(range(len(vectors)), key=lambda place: (-scores[place], names[place]))


def searcher_of(vectors, names):
    return RowSearcher(pack(vectors), lambda positions: [names[place] for place in positions])


@st.composite
def collections(draw):
    """Image vectors and a target, often far from zero (so that float32 cancels) and often repeated."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count, dimension = draw(st.integers(1, 200)), draw(st.integers(1, 6))
    scale = draw(st.sampled_from([1e-30, 1e-3, 1.0, 1e3, 1e17]))
    offset = min(draw(st.sampled_from([0.0, 1.0, 1e3, 1e5])) * scale, 1e17)
    distinct = rng.normal(size=(draw(st.integers(1, count)), 3, dimension))
    if draw(st.booleans()):
        distinct = distinct.round()
    vectors = (distinct[rng.integers(0, len(distinct), count)] * scale + offset).astype(np.float32)
    target = (rng.normal(size=(3, dimension)) * scale + offset).astype(np.float32)
    if draw(st.booleans()):
        target = vectors[rng.integers(0, count)].copy()
    names = [f"{number}" for number in rng.permutation(count)]
    return vectors, target, names


@settings(max_examples=200, deadline=None)
@given(collections(), st.integers(1, 220))
def test_every_mask_pattern_gives_exactly_the_ranking_of_brute_force(collection, k):
    vectors, target, names = collection
    searcher = searcher_of(vectors, names)
    answers = searcher.nearest(np.tile(target, (len(MASKS), 1, 1)), np.array(MASKS), k)
    for mask, answer in zip(MASKS, answers, strict=True):
        assert answer.positions.tolist() == brute_force(vectors, target, mask, names)[:k]


def test_images_that_float32_cannot_tell_apart_are_still_ranked_exactly():
    rng = np.random.default_rng(0)
    vectors = (1000 + rng.normal(size=(5_000, 3, 20)) * 1e-2).astype(np.float32)
    target = np.full((3, 20), 1000, np.float32)
    names = [f"{number:05d}" for number in range(len(vectors))]
    rows = pack(vectors)
    swept = rows @ np.concatenate([2 * target.ravel(), -np.ones(3, np.float32)])
    expected = brute_force(vectors, target, (True, True, True), names)
    assert np.argsort(-swept, kind="stable")[:10].tolist() != expected[:10]
    found = searcher_of(vectors, names).nearest(target[None], np.ones((1, 3), bool), 10)[0]
    assert found.positions.tolist() == expected[:10]


def test_more_equal_images_than_asked_for_are_ordered_by_name():
    vectors = np.ones((3_000, 3, 4), np.float32)
    names = [f"{number:04d}" for number in np.random.default_rng(0).permutation(3_000)]
    found = searcher_of(vectors, names).nearest(np.zeros((1, 3, 4)), np.ones((1, 3), bool), 5)[0]
    assert [names[place] for place in found.positions] == ["0000", "0001", "0002", "0003", "0004"]


def test_one_image_of_enormous_norm_does_not_spoil_the_others():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(500, 3, 4)).astype(np.float32)
    vectors[3] = 1e18
    names = [f"{number:03d}" for number in range(500)]
    target = rng.normal(size=(3, 4)).astype(np.float32)
    found = searcher_of(vectors, names).nearest(target[None], np.ones((1, 3), bool), 20)[0]
    assert found.positions.tolist() == brute_force(vectors, target, (True, True, True), names)[:20]


def test_many_queries_at_once_give_the_answers_of_each_alone():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(400, 3, 5)).astype(np.float32)
    names = [f"{number:03d}" for number in range(400)]
    targets = rng.normal(size=(60, 3, 5)).astype(np.float32)
    mask = rng.random((60, 3)) < 0.7
    mask[:, 0] |= ~mask.any(axis=1)
    searcher = searcher_of(vectors, names)
    together = searcher.nearest(targets, mask, 7)
    for row in range(60):
        alone = searcher.nearest(targets[row : row + 1], mask[row : row + 1], 7)[0]
        assert together[row].positions.tolist() == alone.positions.tolist()
        np.testing.assert_array_equal(together[row].by_unit, alone.by_unit)


def test_rows_hold_the_vectors_and_their_squared_norms():
    vectors = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32)
    rows = pack(vectors)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(unpack(rows), vectors)
    np.testing.assert_allclose(rows[:, -3:], (vectors.astype(float) ** 2).sum(axis=-1), rtol=1e-7)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_vectors_that_cannot_be_compared_are_refused_with_their_row(bad):
    vectors = np.zeros((4, 3, 2), np.float32)
    vectors[2, 1, 0] = bad
    with pytest.raises(FactIndexError, match=r"row 2|image 2"):
        pack(vectors)
