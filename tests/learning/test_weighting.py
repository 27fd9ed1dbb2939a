"""A run in closed form is adapted by weights, its features by random ones or by a first session."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge as Reference

from factlearn.errors import RunError
from factlearn.learning.adaptation import adapt
from factlearn.learning.forgetting import forget
from factlearn.learning.problem import problem_class
from tests.conftest import FACTS
from tests.learning.closed_form import RIDGE, assert_same_knowledge, facts_run
from tests.learning.helpers import tensors


def learned_rows(run):
    """Features of all training photos, and the numbers of their facts."""
    problem = problem_class(run.config).of_run(run, run.model())
    batches = [each for task in range(len(problem.tasks)) for each in problem.stage_data([task]).labelled_batches(50)]
    with torch.no_grad():
        features = torch.cat([problem.model.suffix.features(inputs) for inputs, _, _ in batches])
    return features.double().numpy(), torch.cat([numbers for _, _, numbers in batches]).numpy()


def test_adapting_is_ridge_regression_with_sample_weights(config, tmp_path):
    run = facts_run(config, tmp_path, "run", [[0, 1], [2, 3]], strategy={**RIDGE, "weight": 7})
    adapted = adapt(run, ["<person, *, *>"], tmp_path / "adapted")
    features, numbers = learned_rows(run)
    weights = np.where(numbers < 2, 7.0, 1.0)
    strength = 0.3 * np.average(np.square(features).sum(1), weights=weights)
    reference = Reference(alpha=strength).fit(features, np.eye(4)[numbers], sample_weight=weights)
    state = tensors(adapted, 2, "model")
    found = torch.cat([state["heads.0.weight"], state["heads.1.weight"]]).numpy()
    np.testing.assert_allclose(found, reference.coef_, rtol=1e-3, atol=1e-5)
    assert adapted.result().final.map_all > 0
    assert adapted.description()["adapted"]["stage"] == 2


def test_a_protected_fact_can_be_forgotten_and_others_keep_their_weight(config, tmp_path):
    whole, never = (
        adapt(facts_run(config, tmp_path, name, groups, readout="distance"), ["<person, *, *>"], tmp_path / name)
        for name, groups in (("whole", [[0, 1], [2, 3]]), ("never", [[0], [2, 3]]))
    )
    assert_same_knowledge(forget(whole, [str(FACTS[1])], out=tmp_path / "left"), never)


def test_unlabelled_images_are_refused(config, tmp_path):
    run = facts_run(config, tmp_path, "run", [[0, 1]])
    with pytest.raises(RunError, match="labelled photos"):
        adapt(run, tmp_path, tmp_path / "adapted")


def test_random_features_follow_from_the_seed_and_are_not_stored(config, tmp_path):
    one, two = (facts_run(config, tmp_path, f"run {n}", [[0, 1]], model__random_features=300, seed=n) for n in (1, 2))
    model = one.model()
    inputs = torch.rand(3, 512, 1, 1)
    with torch.no_grad():
        features = model.suffix.features(inputs)
    assert features.shape == (3, 812)
    assert torch.equal(features, one.model().suffix.features(inputs))
    assert not torch.equal(features, two.model().suffix.features(inputs))
    assert sum(each.numel() for name, each in tensors(one, 1, "model").items() if "random" in name) == 1


def test_features_are_adapted_to_the_first_task_and_frozen_afterwards(config, tmp_path):
    run = facts_run(
        config, tmp_path, "run", [[0, 1], [2], [3]],
        model__hidden=[16], strategy={**RIDGE, "first_session_epochs": 2},
    )  # fmt: skip
    plain = facts_run(config, tmp_path, "plain", [[0, 1], [2], [3]], model__hidden=[16])
    first, last, never = (tensors(r, s, "model")["shared.0.weight"] for r, s in ((run, 1), (run, 3), (plain, 3)))
    assert torch.equal(first, last)
    assert not torch.equal(first, never)
    assert [line["epoch"] for line in run.metrics() if line["event"] == "epoch"] == [1, 2]
