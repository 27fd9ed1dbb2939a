import math
import statistics

import pytest
import torch

from factlearn.experiments import digits
from factlearn.experiments.digits import GRID, METHODS, DigitsResult, learn_digits, main, permuted_tasks, tune
from factlearn.lifelong.config import CONFIGS

# Least average accuracy over five tasks, mean of three seeds.
TARGETS = {"mas": 72, "l-mas": 73, "ewc": 72, "si": 66, "lwf": 57, "joint": 97}


def test_every_method_of_the_configs_is_compared():
    assert set(METHODS) == set(CONFIGS) - {"ridge"}  # which learns vectors, not classes


def test_tasks_are_the_same_digits_in_different_orders_of_pixels():
    one, two = permuted_tasks(0, count=2)
    assert not torch.equal(one.train[0], two.train[0])
    torch.testing.assert_close(one.train[0].sort(1).values, two.train[0].sort(1).values)
    assert torch.equal(one.train[1], two.train[1])
    assert len(one.train[0]) + len(one.test[0]) == 1797


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_two_tasks(method):
    settings = {"autoencoder_epochs": 3} if method == "ebll" else {}
    result = learn_digits(method, tasks=2, epochs=2, **settings)
    assert len(result.accuracy) == (1 if method == "joint" else 2)
    if method != "imm-mean":  # the mean of two solutions after so few steps is worth little
        assert result.accuracy[-1][-1] > 60
    assert result.average > 45


def test_a_seed_gives_the_same_numbers_again_and_another_seed_others():
    assert learn_digits("si", 1, tasks=2, epochs=1) == learn_digits("si", 1, tasks=2, epochs=1)
    assert learn_digits("si", 1, tasks=2, epochs=1) != learn_digits("si", 2, tasks=2, epochs=1)


def test_average_and_forgetting_follow_from_the_matrix():
    result = DigitsResult(((90.0, 10.0, 20.0), (80.0, 96.0, 30.0), (70.0, 86.0, 99.0)), 0, 0)
    assert result.average == pytest.approx(85)
    assert result.forgetting == pytest.approx(15)


def test_the_table_has_a_row_a_method(capsys, monkeypatch):
    monkeypatch.setattr(digits, "EPOCHS", 1)
    main(["--methods", "finetune", "--seeds", "1"])
    assert "finetune" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("method", TARGETS)
def test_the_average_accuracy_reaches_its_target(method):
    assert statistics.fmean(learn_digits(method, seed).average for seed in range(3)) >= TARGETS[method]


@pytest.mark.slow
def test_finetune_forgets_as_much_as_expected():
    assert statistics.fmean(learn_digits("finetune", seed).average for seed in range(3)) == pytest.approx(44, abs=6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mas", "l-mas", "ewc", "si", "lwf"])
def test_no_strength_from_a_hundredth_to_a_hundred_diverges(method):
    scores = tune(method, grid=[s for s in GRID if s <= 100], seeds=(0,))
    assert not any(math.isnan(score) for score in scores.values())
    assert min(scores.values()) > 20
