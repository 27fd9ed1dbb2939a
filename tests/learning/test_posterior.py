"""Facts read out by their posterior: through the one engine, with every method, in the language space."""

import numpy as np
import pytest
import torch

from factlearn.indexing.building import build_index
from factlearn.learning.adaptation import adapt
from factlearn.learning.facts import test_vectors as vectors_of
from factlearn.learning.training import learn_more
from factlearn.lifelong.registry import METHODS
from tests.learning.helpers import assert_same_run, learn, learn_interrupted, some_in_ci

QUICK = {"ebll": {"code_size": 4, "autoencoder_epochs": 2}}


@pytest.fixture
def posterior(config):
    config["model"]["readout"] = "posterior"
    config["training"]["epochs"] = 2
    return config


def settings(name):
    return {"name": name, **QUICK.get(name, {})}


@pytest.mark.parametrize("name", some_in_ci(METHODS))
def test_every_method_learns_with_the_posterior_readout_and_resumes_bit_for_bit(posterior, tmp_path, name):
    whole = learn(posterior, tmp_path / "whole", strategy=settings(name))
    assert whole.result().final.map_all > 0
    if name not in ("joint", "ridge"):
        learn_interrupted(posterior, tmp_path / "cut", 5, strategy=settings(name))
    else:
        learn(posterior, tmp_path / "cut", strategy=settings(name), stop_after=1)
    assert_same_run(whole, learn(posterior, tmp_path / "cut", strategy=settings(name), resume=True))


def test_vectors_are_the_mean_of_the_known_facts_under_the_posterior(posterior, tmp_path):
    run = learn(posterior, tmp_path / "run", strategy={"name": "ridge", "shrinkage": "auto"})
    model = run.model()
    assert float(model.suffix.temperature) < 1
    images = torch.rand(4, 512, 1, 1)
    with torch.no_grad():
        model.suffix.answers = "scores"
        scores = torch.cat(model.suffix(images), dim=1)
        model.suffix.answers = "vectors"
        found = model.suffix(images).numpy()
    facts = [fact for task in run.tasks().tasks for fact in task.facts]
    targets, _ = run.language().embed(facts)
    chances = torch.softmax(scores / model.suffix.temperature, dim=1).numpy()
    np.testing.assert_allclose(found, np.einsum("nf,fud->nud", chances, targets), atol=1e-5)


def test_after_the_first_task_only_its_facts_are_known(posterior, tmp_path):
    run = learn(posterior, tmp_path / "run")
    first = run.model(1)
    assert first.suffix.open == 1
    known, _ = run.language().embed(list(run.tasks().tasks[0].facts))
    spread = np.linalg.matrix_rank(vectors_of(run, 1)[:, 0] - known[0, 0], tol=1e-4)
    assert spread <= len(known)


def test_the_closed_form_does_not_depend_on_how_facts_are_split_into_tasks(posterior, tmp_path):
    posterior["model"]["standardise"] = False  # its statistics are those of the first task
    whole = learn(posterior, tmp_path / "one", strategy={"name": "ridge"}, tasks={"method": "random", "count": 1})
    split = learn(posterior, tmp_path / "two", strategy={"name": "ridge"}, tasks={"method": "random", "count": 3})
    for run in (whole, split):
        run.facts = [fact for task in run.tasks().tasks for fact in task.facts]
    order = [split.facts.index(fact) for fact in whole.facts]
    rows = [torch.cat([head.weight for head in run.model().suffix.heads]) for run in (whole, split)]
    torch.testing.assert_close(rows[0], rows[1][order], rtol=1e-3, atol=1e-5)


def test_a_run_with_the_posterior_readout_is_indexed_adapted_and_learns_on(posterior, tmp_path):
    run = learn(posterior, tmp_path / "run", stop_after=1)
    index = build_index(run, "test", tmp_path / "index")
    assert index.query(str(run.tasks().tasks[0].facts[0]), k=3)
    adapted = adapt(run, [str(run.tasks().tasks[0].facts[0])], tmp_path / "adapted")
    assert len(learn_more(adapted).result().learned) == 2
    guess = run.predict([run.data.samples[0].path], top=2)[0]
    assert (guess.measure, guess.task) == ("score", run.task_names()[0])  # too few test photos to calibrate on
