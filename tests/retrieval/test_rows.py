import numpy as np
import pytest

from factlearn.errors import FactIndexError
from factlearn.retrieval.rows import pack, unpack


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
