import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factlearn.errors import FactlearnError
from factlearn.evaluation.forgetting import forgetting

MATRIX = [
    [0.8, None, None],
    [0.6, 0.9, None],
    [0.7, 0.5, 0.4],
]
SCORES = st.floats(0, 1)


@st.composite
def matrices(draw):
    count = draw(st.integers(1, 6))
    return [draw(st.lists(SCORES, min_size=row + 1, max_size=row + 1)) for row in range(count)]


def test_forgetting_is_the_best_score_before_the_last_task_minus_the_final_one():
    result = forgetting(MATRIX)
    assert result.per_task == pytest.approx((0.8 - 0.7, 0.9 - 0.5))
    assert result.average == pytest.approx(0.25)
    assert result.backward_transfer == pytest.approx(((0.7 - 0.8) + (0.5 - 0.9)) / 2)
    assert result.final == pytest.approx((0.7 + 0.5 + 0.4) / 3)


def test_a_task_that_improved_afterwards_has_negative_forgetting():
    assert forgetting([[0.5], [0.6, 0.9]]).average == pytest.approx(-0.1)


def test_a_single_task_has_forgotten_nothing():
    assert forgetting([[0.5]]).to_json() == {
        "per_task": (),
        "average": 0.0,
        "backward_transfer": 0.0,
        "final": 0.5,
    }


@given(matrices())
def test_forgetting_is_never_less_than_minus_backward_transfer(matrix):
    result = forgetting(matrix)
    assert result.average >= -result.backward_transfer - 1e-12
    json.dumps(result.to_json(), allow_nan=False)


@given(matrices(), SCORES)
def test_scores_of_tasks_not_yet_learned_do_not_matter(matrix, value):
    square = [row + [value] * (len(matrix) - len(row)) for row in matrix]
    assert forgetting(square) == forgetting(matrix)


@pytest.mark.parametrize("matrix", [[], [[]], [[None]], [[0.5], [0.5]], [[0.5], [float("nan"), 0.1]]])
def test_a_missing_score_is_refused(matrix):
    with pytest.raises(FactlearnError):
        forgetting(matrix)
