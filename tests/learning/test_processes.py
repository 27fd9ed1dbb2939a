"""Several processes learn what one learns, up to the order of sums; whichever of them dies, the others can go on."""

import os
import signal

import numpy as np
import pytest
import torch

from factlearn.errors import ModelError
from factlearn.learning.loop import learn_stage
from factlearn.learning.runs import Run, load_run
from factlearn.lifelong.registry import METHODS
from tests.learning.helpers import learn, omega_of, tensors
from tests.learning.test_resume import settings
from tests.learning.together import LOST, learn_together

FACTS = [name for name in METHODS if name != "joint"]
CLASSES = [name for name in FACTS if "classes" in METHODS[name].problems]


def assert_close_run(one, other, tolerance=1e-4):
    """Weights, what the strategy remembers, vectors and losses agree up to rounding."""
    assert one.finished_stages() == other.finished_stages()
    for stage in range(1, one.finished_stages() + 1):
        for file in ("model", "strategy"):
            first, second = tensors(one, stage, file), tensors(other, stage, file)
            assert first.keys() == second.keys()
            for name, value in first.items():
                assert distance(value, second[name]) < tolerance, (stage, file, name)
    losses = [[line["loss"] for line in run.metrics() if line["event"] == "epoch"] for run in (one, other)]
    np.testing.assert_allclose(*losses, rtol=tolerance)


def distance(one, other):
    """The difference of two tensors relative to the first one's length."""
    one, other = (each.double().nan_to_num(0.0, 0.0, 0.0) for each in (one, other))
    return float((one - other).norm() / one.norm().clamp_min(1e-9))


@pytest.mark.parametrize("name", FACTS)
def test_two_processes_learn_facts_like_one_with_every_method(config, tmp_path, name):
    """Batches of 5 are shared unequally, with dropout and mirrored images; the last batch of a task has 3."""
    changes = {"strategy": settings(name), "training__epochs": 2}
    one = learn(config, tmp_path / "one", **changes)
    assert learn_together(2, config, tmp_path / "two", **changes) == [0, 0]
    assert_close_run(one, load_run(tmp_path / "two"))


@pytest.mark.parametrize("name", CLASSES)
def test_three_processes_learn_classes_like_one_with_every_method(digits_config, tmp_path, name):
    changes = {"strategy": settings(name), "training__epochs": 1, "model__dropout": 0.2}
    one = learn(digits_config, tmp_path / "one", stop_after=2, **changes)
    assert learn_together(3, digits_config, tmp_path / "three", stop_after=2, **changes) == [0, 0, 0]
    assert_close_run(one, load_run(tmp_path / "three"))
