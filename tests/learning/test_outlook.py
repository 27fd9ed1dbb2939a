"""What is said of an adaptation before anything is learned with it."""

import pytest
import torch

from factlearn.learning.outlook import KEPT, Outlook
from factlearn.lifelong.mixture import mixed

WHOLE = {"a": torch.tensor([4.0, 3.0, 2.0, 1.0])}
OTHER = {"a": torch.tensor([1.0, 2.0, 3.0, 4.0])}


def test_adding_keeps_all_importance_and_warns_of_nothing():
    outlook = Outlook.of(WHOLE, OTHER, mixed(WHOLE, OTHER, 1.0, floor=3.0), 6.0)
    assert outlook.kept == pytest.approx(1)
    assert outlook.firmness == pytest.approx(5)
    assert outlook.floor == pytest.approx(3.4)
    assert outlook.agreement == pytest.approx(0.6)
    assert outlook.warnings() == []


def test_a_firm_hold_without_a_floor_warns_with_its_numbers():
    peaked = {"a": torch.tensor([10.0, 0.0, 0.0, 0.0])}
    outlook = Outlook.of(WHOLE, peaked, mixed(WHOLE, peaked, 3.0), 6.0)
    assert outlook.floor == 0
    (warning,) = outlook.warnings()
    assert "4.0 times as firmly" in warning
    assert "protect_floor" in warning


def test_replacing_keeps_what_the_two_have_in_common_and_warns_with_the_number():
    outlook = Outlook.of(WHOLE, OTHER, OTHER, 6.0)
    assert outlook.kept == pytest.approx(0.6)
    assert outlook.kept < KEPT
    (warning,) = outlook.warnings()
    assert "60%" in warning
    assert "--only" in warning
    assert outlook.to_json()["warnings"] == [warning]


def test_replacing_by_nearly_the_same_importance_warns_of_nothing():
    near = {"a": WHOLE["a"] * torch.tensor([1.0, 0.95, 1.0, 1.0])}
    assert Outlook.of(WHOLE, near, near, 6.0).warnings() == []


def test_where_old_heads_do_not_move_little_is_gained_and_it_says_so():
    (warning,) = Outlook.of(WHOLE, OTHER, mixed(WHOLE, OTHER, 3.0), 6.0, heads=True).warnings()
    assert "little is forgotten" in warning


def test_without_lambda_adapting_changes_nothing_and_says_so():
    (warning,) = Outlook.of(WHOLE, OTHER, mixed(WHOLE, OTHER, 3.0), 0.0).warnings()
    assert "lambda is 0" in warning
