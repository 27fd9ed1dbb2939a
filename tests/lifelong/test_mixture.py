"""Importance of a part added to the whole's."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from factlearn.errors import ModelError
from factlearn.lifelong.mixture import mean_importance, mixed

WHOLE = {"a": torch.tensor([1.0, 3.0]), "b": torch.tensor([[2.0, 2.0]])}  # mean 2
PART = {"a": torch.tensor([0.0, 8.0]), "b": torch.tensor([[4.0, 4.0]])}  # mean 4


def test_the_mixture_is_the_whole_plus_the_part_at_the_wholes_mean():
    found = mixed(WHOLE, PART, 3.0)
    assert found["a"].tolist() == [1.0 + 3 * 0.0, 3.0 + 3 * 4.0]
    assert found["b"].tolist() == [[2.0 + 3 * 2.0, 2.0 + 3 * 2.0]]
    raised = mixed(WHOLE, PART, 3.0, floor=0.5)
    assert all(torch.equal(raised[name], each + 0.5 * 2.0) for name, each in found.items())


@settings(deadline=None)
@given(st.floats(0, 10), st.floats(1e-3, 1e3))
def test_the_scale_of_the_part_does_not_matter_and_the_mean_grows_by_the_weight(weight, scale):
    part = {name: scale * each for name, each in PART.items()}
    for name, each in mixed(WHOLE, part, weight).items():
        torch.testing.assert_close(each, mixed(WHOLE, PART, weight)[name])
        assert (each >= WHOLE[name]).all()
    assert mean_importance(mixed(WHOLE, part, weight)) == pytest.approx((1 + weight) * mean_importance(WHOLE))


def test_a_part_without_importance_adds_nothing():
    nothing = {name: torch.zeros_like(each) for name, each in WHOLE.items()}
    assert all(torch.equal(each, WHOLE[name]) for name, each in mixed(WHOLE, nothing, 5.0).items())


def test_heads_that_the_whole_does_not_cover_are_left_out_and_missing_parameters_refused():
    assert mixed(WHOLE, {**PART, "heads.0": torch.ones(100)}, 1.0).keys() == WHOLE.keys()
    with pytest.raises(ModelError, match="no parameter 'b'"):
        mixed(WHOLE, {"a": PART["a"]}, 1.0)
