"""A run that was interrupted and resumed is, bit for bit, one that never was; of facts and of classes alike."""

import pytest

from factlearn.errors import RunError
from factlearn.learning.runs import Run
from factlearn.lifelong.registry import METHODS
from tests.learning.helpers import assert_same_run, learn, learn_interrupted, same_bits, some_in_ci, tensors

SMALL = {"ebll": {"code_size": 4, "autoencoder_epochs": 2}}
"""Settings that make methods quick."""
GRADUAL = [name for name in METHODS if name not in ("joint", "ridge")]
"""Methods that take gradient steps, one task after the other."""


def settings(name):
    return {"name": name, **SMALL.get(name, {})}


@pytest.mark.parametrize("name", some_in_ci(GRADUAL))
def test_facts_resume_bit_for_bit_with_every_method(config, tmp_path, name):
    """Interrupted in the second stage, after a checkpoint."""
    whole = learn(config, tmp_path / "whole", strategy=settings(name))
    learn_interrupted(config, tmp_path / "cut", 6, strategy=settings(name))
    cut = learn(config, tmp_path / "cut", strategy=settings(name), resume=True)
    assert_same_run(whole, cut)
    assert whole.stage(2)["memory"]["model_bytes"] > 0
    assert name == "finetune" or whole.stage(2)["memory"]["training_bytes"] > 0


def test_bfloat16_resumes_bit_for_bit_and_leaves_float32_weights(shapes_config, tmp_path):
    changes = {"training__precision": "bfloat16", "training__epochs": 3, "model__frozen": "conv4"}
    whole = learn(shapes_config, tmp_path / "whole", **changes)
    learn_interrupted(shapes_config, tmp_path / "cut", 6, **changes)
    assert_same_run(whole, learn(shapes_config, tmp_path / "cut", **changes, resume=True))
    plain = learn(shapes_config, tmp_path / "plain", **{**changes, "training__precision": "float32"})
    weights = [tensors(run, 2, "model") for run in (whole, plain)]
    assert {value.dtype for value in weights[0].values()} == {value.dtype for value in weights[1].values()}
    assert not same_bits(*weights)


@pytest.mark.parametrize(("name", "at"), [("mas", 2), ("mas", 4), ("joint", 2)])
def test_facts_resume_bit_for_bit_wherever_they_are_interrupted(config, tmp_path, name, at):
    """In the first stage; just after its evaluation, which is logged before the stage is kept; where there is one."""
    whole = learn(config, tmp_path / "whole", strategy={"name": name})
    learn_interrupted(config, tmp_path / "cut", at, strategy={"name": name})
    assert_same_run(whole, learn(config, tmp_path / "cut", strategy={"name": name}, resume=True))


@pytest.mark.parametrize("name", some_in_ci(name for name in GRADUAL if "classes" in METHODS[name].problems))
def test_classes_resume_bit_for_bit_with_every_method(shapes_config, tmp_path, name):
    """Interrupted in the second stage, after a checkpoint."""
    shapes_config["training"]["epochs"] = 3
    whole = learn(shapes_config, tmp_path / "whole", strategy=settings(name))
    learn_interrupted(shapes_config, tmp_path / "cut", 6, strategy=settings(name))
    cut = learn(shapes_config, tmp_path / "cut", strategy=settings(name), resume=True)
    assert_same_run(whole, cut)
    assert whole.stage(2)["nearest_mean"] == cut.stage(2)["nearest_mean"]


@pytest.mark.parametrize(("name", "at"), [("mas", 1), ("mas", 4), ("joint", 2)])
def test_classes_resume_bit_for_bit_wherever_they_are_interrupted(shapes_config, tmp_path, name, at):
    shapes_config["training"]["epochs"] = 3
    whole = learn(shapes_config, tmp_path / "whole", strategy={"name": name})
    learn_interrupted(shapes_config, tmp_path / "cut", at, strategy={"name": name})
    assert_same_run(whole, learn(shapes_config, tmp_path / "cut", strategy={"name": name}, resume=True))


def test_a_run_killed_just_after_a_checkpoint_was_kept_resumes_bit_for_bit(digits_config, tmp_path, monkeypatch):
    whole = learn(digits_config, tmp_path / "whole")
    keep = Run.save_checkpoint

    def kill_after(run, checkpoint):
        keep(run, checkpoint)
        if (checkpoint.stage, checkpoint.epoch) == (3, 2):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Run, "save_checkpoint", kill_after)
        with pytest.raises(KeyboardInterrupt):
            learn(digits_config, tmp_path / "cut")
    assert_same_run(whole, learn(digits_config, tmp_path / "cut", resume=True))


@pytest.mark.parametrize("kind", ["config", "digits_config"])
def test_a_run_that_stopped_after_some_tasks_continues_as_if_it_had_not(kind, request, tmp_path):
    config = request.getfixturevalue(kind)
    whole = learn(config, tmp_path / "whole")
    assert learn(config, tmp_path / "part", stop_after=1).finished_stages() == 1
    assert_same_run(whole, learn(config, tmp_path / "part", resume=True))


def test_ridge_continues_from_any_task(config, tmp_path):
    whole = learn(config, tmp_path / "whole", strategy={"name": "ridge"})
    learn(config, tmp_path / "cut", strategy={"name": "ridge"}, stop_after=1)
    cut = learn(config, tmp_path / "cut", strategy={"name": "ridge"}, resume=True)
    for file in ("model", "strategy"):
        assert same_bits(tensors(whole, 2, file), tensors(cut, 2, file))


def test_metrics_of_epochs_that_no_checkpoint_kept_are_not_logged_twice(config, tmp_path):
    config["training"] = {**config["training"], "checkpoint_epochs": 10}
    whole = learn(config, tmp_path / "whole")
    for at in (2, 6):
        learn_interrupted(config, tmp_path / f"cut-{at}", at)
        assert learn(config, tmp_path / f"cut-{at}", resume=True).metrics() == whole.metrics()


def test_resuming_a_finished_run_changes_nothing(digits_config, tmp_path):
    run = learn(digits_config, tmp_path / "run", training__epochs=1)
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    learn(digits_config, tmp_path / "run", training__epochs=1, resume=True)
    assert {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("kind", ["config", "digits_config"])
def test_resuming_with_another_config_is_refused(kind, request, tmp_path):
    config = request.getfixturevalue(kind)
    learn(config, tmp_path / "run", training__epochs=1, stop_after=1)
    with pytest.raises(RunError, match="another config"):
        learn(config, tmp_path / "run", resume=True)


def test_resuming_nothing_is_refused(digits_config, tmp_path):
    with pytest.raises(RunError, match="holds no run"):
        learn(digits_config, tmp_path / "run", resume=True)
    assert not (tmp_path / "run").exists()
