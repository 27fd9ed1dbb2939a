"""The engine's options: compilation, and GPUs where there are any."""

import shutil

import numpy as np
import pytest
import torch

from factlearn.errors import RunError
from factlearn.learning.engine import together
from factlearn.learning.runs import load_run
from tests.learning.helpers import learn, parsed
from tests.learning.together import learn_together


def losses(run):
    return [line["loss"] for line in run.metrics() if line["event"] == "epoch"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize("name", ["mas", "drift"])
def test_a_compiled_network_learns_the_same(digits_config, tmp_path, name):
    """With dropout, and with a method that looks at features."""
    changes = {"training__epochs": 2, "model__dropout": 0.2, "strategy": {"name": name}}
    plain = learn(digits_config, tmp_path / "plain", stop_after=2, **changes)
    compiled = learn(digits_config, tmp_path / "compiled", stop_after=2, training__compile=True, **changes)
    np.testing.assert_allclose(losses(compiled), losses(plain), rtol=1e-3)
    assert learn_together(2, digits_config, tmp_path / "two", stop_after=2, training__compile=True, **changes) == [0, 0]
    np.testing.assert_allclose(losses(load_run(tmp_path / "two")), losses(plain), rtol=1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_gpu_learns_about_what_a_cpu_learns(digits_config, tmp_path, precision):
    changes = {"training__epochs": 2, "training__precision": precision}
    here = learn(digits_config, tmp_path / "cpu", **changes)
    there = learn({**digits_config, "device": "cuda"}, tmp_path / "gpu", **changes)
    np.testing.assert_allclose(losses(there), losses(here), rtol=0.05)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_learn_what_one_learns(digits_config, tmp_path):
    changes = {"training__epochs": 2, "model__dropout": 0.2}
    digits_config["device"] = "cuda"
    one = learn(digits_config, tmp_path / "one", **changes)
    assert learn_together(2, digits_config, tmp_path / "two", **changes) == [0, 0]
    np.testing.assert_allclose(losses(load_run(tmp_path / "two")), losses(one), rtol=1e-3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_a_device_that_is_not_there_is_refused(digits_config, monkeypatch):
    monkeypatch.setenv("FACTLEARN_MEMBER", "test")
    for devices in (1, 2):
        with (
            pytest.raises(RunError, match="'cuda' cannot be used"),
            together(parsed(digits_config, device="cuda"), devices),
        ):
            learn({**digits_config, "device": "cuda"}, "never made")


def test_a_number_of_devices_that_contradicts_the_launcher_is_refused(digits_config, monkeypatch):
    for name, value in {"TORCHELASTIC_RUN_ID": "test", "LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    with (
        pytest.raises(RunError, match="2 processes were started on each of 2 machines"),
        together(parsed(digits_config), devices=3),
    ):
        pass
