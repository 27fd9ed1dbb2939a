"""Several processes learn what one learns, up to the order of sums; whichever of them dies, any number can go on."""

import os
import shutil
import signal

import numpy as np
import pytest
import torch
from torch import nn

from factlearn import processes
from factlearn.data.registry import open_classes
from factlearn.errors import ModelError
from factlearn.learning import loop
from factlearn.learning.runs import Run, load_run
from factlearn.lifelong.registry import METHODS
from factlearn.models.random_layers import share_random_layers
from tests.learning.helpers import learn, parsed, tensors
from tests.learning.test_faults import terminate_at
from tests.learning.test_resume import settings
from tests.learning.together import LOST, REFUSED, by_slurm, by_torchrun, in_processes, learn_together, train

SLOW = pytest.mark.slow
DIFFERENT = ("mas", "ewc", "ebll", "drift", "ridge", "si")
"""Methods that share their work in different ways; the others are left to `pytest -m slow`."""
QUICK = {"training__epochs": 2, "model__dropout": 0.2}
KILLED = -signal.SIGKILL


@pytest.fixture
def shared(monkeypatch):
    """Steps of dense layers are shared like those of convolutions."""
    monkeypatch.setattr(loop, "steps_are_shared", lambda suffix: True)


def assert_close_run(one, other, tolerance=1e-4):
    """Weights, what the strategy remembers, and losses agree up to rounding."""
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
    return float((one - other).norm() / one.norm().clamp_min(1e-6))


@pytest.mark.parametrize("name", ["mas", *(pytest.param(name, marks=SLOW) for name in ("ewc", "drift", "ridge"))])
def test_two_processes_learn_facts_like_one(config, tmp_path, shared, name):
    """Batches of 5 are shared unequally, with dropout and mirrored images; the last batch of a task has 3."""
    changes = {"strategy": settings(name), "training__epochs": 2}
    one = learn(config, tmp_path / "one", **changes)
    assert learn_together(2, config, tmp_path / "two", **changes) == [0, 0]
    two = load_run(tmp_path / "two")
    assert_close_run(one, two)
    assert two.result().final.map_all == pytest.approx(one.result().final.map_all, abs=0.005)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in DIFFERENT else SLOW)
        for name in METHODS
        if "classes" in METHODS[name].problems
    ],
)
def test_three_processes_learn_classes_like_one_with_every_method(digits_config, tmp_path, shared, name):
    changes = {**QUICK, "strategy": settings(name), "training__batch_size": 70}
    one = learn(digits_config, tmp_path / "one", stop_after=2, **changes)
    assert learn_together(3, digits_config, tmp_path / "three", stop_after=2, **changes) == [0, 0, 0]
    assert_close_run(one, load_run(tmp_path / "three"))


@pytest.mark.parametrize("name", ["mas", pytest.param("si", marks=SLOW), pytest.param("lwf", marks=SLOW)])
def test_dense_layers_are_learned_bit_for_bit_as_in_one_process(digits_config, tmp_path, name):
    changes = {**QUICK, "strategy": settings(name)}
    one = learn(digits_config, tmp_path / "one", stop_after=2, **changes)
    assert learn_together(2, digits_config, tmp_path / "two", stop_after=2, **changes) == [0, 0]
    two = load_run(tmp_path / "two")
    for file in ("model", "strategy"):
        first, second = tensors(one, 2, file), tensors(two, 2, file)
        assert all(torch.equal(value, second[key]) for key, value in first.items())


def test_steps_are_shared_where_convolutions_learn():
    dense, convolution = nn.Sequential(nn.Linear(3, 3)), nn.Sequential(nn.Conv2d(3, 3, 1), nn.Linear(3, 3))
    assert [loop.steps_are_shared(each) for each in (dense, convolution)] == [False, True]


@SLOW
def test_activations_and_the_posterior_are_shared_too(config, tmp_path, monkeypatch):
    """Each process computes activations of its own batches, and none twice."""
    changes = {"model__readout": "posterior", "training__epochs": 1}
    monkeypatch.setenv("FACTLEARN_CACHE", str(tmp_path / "cache of one"))
    one = learn(config, tmp_path / "one", **changes)
    monkeypatch.setenv("FACTLEARN_CACHE", str(tmp_path / "cache of two"))
    assert learn_together(2, config, tmp_path / "two", **changes) == [0, 0]
    assert_close_run(one, load_run(tmp_path / "two"))
    sizes = [sum(path.stat().st_size for path in (tmp_path / f"cache of {n}").rglob("*.npy")) for n in ("one", "two")]
    assert sizes[0] > 0
    assert sizes[1] == pytest.approx(sizes[0], rel=0.01)


def test_batches_with_fewer_images_than_processes_are_learned_by_all_of_them(digits_config, tmp_path, shared):
    images = len(open_classes(parsed(digits_config).data, 0).tasks[0].train)
    changes = {"training__batch_size": images - 2, "training__epochs": 1}
    one = learn(digits_config, tmp_path / "one", stop_after=1, **changes)
    assert learn_together(3, digits_config, tmp_path / "three", stop_after=1, **changes) == [0, 0, 0]
    assert_close_run(one, load_run(tmp_path / "three"))


@pytest.mark.parametrize("rank", [pytest.param(0, marks=SLOW), 1])
def test_after_a_process_was_killed_one_two_or_three_reach_the_same_result(digits_config, tmp_path, rank):
    changes = {**QUICK, "training__epochs": 3}
    whole = learn(digits_config, tmp_path / "whole", stop_after=3, **changes)
    ends = learn_and_kill(digits_config, tmp_path / "killed", rank, **changes)
    assert (ends[rank], ends[1 - rank]) == (KILLED, LOST)
    assert load_run(tmp_path / "killed").finished_stages() == 1
    for count in (1, 2, 3):
        folder = shutil.copytree(tmp_path / "killed", tmp_path / f"resumed by {count}")
        if count == 1:
            learn(digits_config, folder, stop_after=3, resume=True, **changes)
        else:
            assert learn_together(count, digits_config, folder, stop_after=3, resume=True, **changes) == [0] * count
        assert_close_run(whole, load_run(folder))


def learn_and_kill(config, folder, victim, **changes):
    """Two processes learn; one is killed in the second task, after a checkpoint."""
    checked = parsed(config, **changes)

    def work(rank):
        log, logged = Run.log, []

        def kill(run, **values):
            log(run, **values)
            logged.append(values)
            if rank == victim and len(logged) == 6:
                os.kill(os.getpid(), signal.SIGKILL)

        Run.log = kill  # in the forked process alone
        train(checked, folder)

    return in_processes(2, checked, work)


def test_a_run_that_sigterm_stopped_within_an_epoch_goes_on_with_another_number_of_processes(digits_config, tmp_path):
    """One process goes on with what two have begun, with the losses of both."""
    changes = {**QUICK, "training__batch_size": 100}
    checked = parsed(digits_config, **changes)
    whole = learn(digits_config, tmp_path / "whole", stop_after=2, **changes)

    def work(rank):
        with terminate_at(5):
            train(checked, tmp_path / "cut", stop_after=2)

    assert in_processes(2, checked, work) == [REFUSED, REFUSED]
    assert len(load_run(tmp_path / "cut").checkpoint(2).middle["losses"]) == 2
    assert_close_run(whole, learn(digits_config, tmp_path / "cut", resume=True, stop_after=2, **changes))


def test_a_process_that_cannot_read_its_images_names_them_and_leaves_nothing_behind(config, manifest, tmp_path, capfd):
    """Only the second process decodes the broken image."""
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for path in manifest.parent.iterdir():
        (pictures / path.name).write_bytes(path.read_bytes())
    for path in pictures.glob("*-5.png"):
        path.write_bytes(b"not an image")
    config["data"]["manifest"] = str(pictures / "facts.csv")
    ends = learn_together(2, config, tmp_path / "run")
    assert REFUSED in ends
    assert set(ends) <= {REFUSED, LOST}
    assert "6 images cannot be read" in capfd.readouterr().out
    assert not (tmp_path / "run").exists()


def test_layers_that_need_whole_batches_are_refused_before_learning(monkeypatch):
    monkeypatch.setattr(processes, "_group", processes.Group(0, 2))
    for layer in (nn.BatchNorm1d(4), nn.AlphaDropout(0.1), nn.RReLU(), nn.MultiheadAttention(4, 2, dropout=0.1)):
        with pytest.raises(ModelError, match=f"{type(layer).__name__} layers need whole batches"):
            share_random_layers(nn.Sequential(nn.Linear(4, 4), layer))
    share_random_layers(nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.GELU()))


@pytest.mark.parametrize("launcher", [by_torchrun, by_slurm])
def test_processes_that_torchrun_or_slurm_started_find_each_other(digits_config, launcher):
    def work(rank):
        assert (processes.count(), processes.first()) == (2, rank == 0)
        assert float(processes.total(torch.tensor(rank + 1.0))) == 3

    assert in_processes(2, parsed(digits_config), work, launcher) == [0, 0]


def test_gradients_that_no_process_has_stay_missing_and_others_add_up(digits_config):
    def work(rank):
        first, second, third = (nn.Parameter(torch.zeros(2)) for _ in range(3))
        first.grad = torch.full((2,), rank + 1.0)
        if rank == 1:
            second.grad = torch.ones(2)
        assert float(processes.add_gradients([first, second, third], torch.tensor(rank + 0.5))) == 2
        assert first.grad.tolist() == [3, 3]
        assert second.grad.tolist() == [1, 1]
        assert third.grad is None

    assert in_processes(2, parsed(digits_config), work) == [0, 0]


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 35])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_every_row_of_a_batch_is_taken_and_weights_add_up_to_one(monkeypatch, rows, count):
    taken, weights = [], []
    for rank in range(count):
        monkeypatch.setattr(processes, "_group", processes.Group(rank, count))
        weights.append(processes.begin_batch(rows))
        taken += list(range(rows))[processes.rows_of(rows)]
    assert sum(weights) == pytest.approx(1)
    assert sorted(taken) == sorted(list(range(rows)) * (count if rows < count else 1))
