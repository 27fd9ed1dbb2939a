"""Learning classes, from a config to a run directory."""

import shutil
from typing import Literal

import pytest
import torch

from factlearn.errors import ConfigError, FactlearnError, ImageError, RunError
from factlearn.learning.classes import ClassProblem
from factlearn.learning.runs import Run
from factlearn.learning.training import train_or_reuse
from factlearn.lifelong.config import MethodConfig
from factlearn.lifelong.importance import estimate
from factlearn.lifelong.registry import METHODS, method
from factlearn.lifelong.strategy import Strategy
from tests.learning.helpers import learn, omega_of, parsed, tensors

CLASSIFYING = [name for name, method in METHODS.items() if "classes" in method.problems]


@pytest.mark.parametrize("name", CLASSIFYING)
def test_every_method_learns_the_split_digits(name, digits_config, tmp_path):
    result = learn(digits_config, tmp_path / "run", strategy={"name": name}).result()
    assert result.final.average > 0.7
    assert result.in_turn == (name != "joint")
    assert [len(names) for names in result.learned] == ([5] if name == "joint" else [1, 2, 3, 4, 5])


def test_a_method_for_facts_alone_is_refused(digits_config):
    class FactsOnlyConfig(MethodConfig):
        name: Literal["facts-only"] = "facts-only"

    method(title="Facts only", summary="for tests", config=FactsOnlyConfig, problems=("facts",))(
        type("Own", (Strategy,), {})
    )
    try:
        with pytest.raises(ConfigError, match="does not learn classes"):
            parsed(digits_config, strategy={"name": "facts-only"})
    finally:
        METHODS.unregister("facts-only")


def test_images_are_learned_through_a_frozen_prefix(shapes_config, tmp_path, cache):
    result = learn(shapes_config, tmp_path / "run").result()
    assert result.tasks == ["round", "square"]
    assert result.final.average > 0.6
    assert list((cache / "activations").rglob("*.npy"))


def test_a_head_does_not_change_after_its_task_and_shared_layers_do(digits_config, tmp_path):
    run = learn(digits_config, tmp_path / "run", strategy={"name": "finetune"})
    first, last = (tensors(run, stage, "model") for stage in (1, 5))
    assert torch.equal(first["heads.0.weight"], last["heads.0.weight"])
    assert not torch.equal(first["heads.4.weight"], last["heads.4.weight"])
    assert not torch.equal(first["shared.0.weight"], last["shared.0.weight"])


def test_tasks_that_share_a_head_are_learned_with_one(digits_config, tmp_path):
    config = {**digits_config, "data": {"source": "permuted-digits", "count": 2}}
    run = learn(config, tmp_path / "run", model__heads="shared")
    assert len(run.model().suffix.heads) == 1
    assert run.result().final.average > 0.5


def test_a_finished_run_is_used_again_and_another_config_replaces_it(digits_config, tmp_path):
    config = parsed(digits_config, training__epochs=1)
    train_or_reuse(config, tmp_path / "run")
    written = (tmp_path / "run" / "metrics.jsonl").stat().st_mtime_ns
    train_or_reuse(config, tmp_path / "run")
    assert (tmp_path / "run" / "metrics.jsonl").stat().st_mtime_ns == written
    train_or_reuse(config.changed(seed=1), tmp_path / "run")
    assert Run.open(tmp_path / "run").config.seed == 1


@pytest.mark.parametrize("source", ["test", "both", ["round/red"], "folder"])
def test_importance_is_measured_where_the_config_says(source, shapes, shapes_config, tmp_path):
    where = str(shapes / "round" / "test") if source == "folder" else source
    plain = learn(shapes_config, tmp_path / "plain", stop_after=1)
    other = learn(shapes_config, tmp_path / "other", stop_after=1, strategy__importance=where)
    assert not torch.equal(omega_of(plain)["shared.0.weight"], omega_of(other)["shared.0.weight"])
    assert all(bool((value >= 0).all()) for value in omega_of(other).values())


def test_importance_of_a_class_is_measured_with_its_own_head(shapes_config, tmp_path):
    run = learn(shapes_config, tmp_path / "run", strategy__importance=["round/red"])
    problem = ClassProblem.of_run(run, run.model())
    measured = estimate(problem.model.suffix.of_task(0), problem.batches_of(("round/red",))).mean()
    added = omega_of(run, 2)["shared.0.weight"] - omega_of(run, 1)["shared.0.weight"]
    torch.testing.assert_close(added, measured["shared.0.weight"], rtol=1e-3, atol=1e-6)


def test_a_class_whose_name_has_commas_can_be_kept(shapes, shapes_config, tmp_path):
    root = tmp_path / "shapes"
    shutil.copytree(shapes, root)
    for side in ("train", "test"):
        (root / "round" / side / "red").rename(root / "round" / side / "red, or crimson, or so")
    names = ["red, or crimson, or so"]
    run = learn({**shapes_config, "data": {"source": "folder", "root": str(root)}}, tmp_path / "run", stop_after=1,
                strategy__importance=names)  # fmt: skip
    assert run.config.strategy.importance == tuple(names)
    assert Run.open(run.folder).config == run.config


@pytest.mark.parametrize(
    ("importance", "message"),
    [
        (["round/rde"], "did you mean"),
        (["red"], "write it as task/class"),
        (["square/red"], "learned after round"),
        (["round/red", "square/red"], "several tasks"),
    ],
)
def test_classes_that_cannot_be_kept_are_refused_before_anything_is_written(
    importance, message, shapes_config, tmp_path
):
    with pytest.raises(FactlearnError, match=message):
        learn(shapes_config, tmp_path / "run", strategy__importance=importance)
    assert not (tmp_path / "run").exists()


def test_rows_need_a_perceptron(digits_config, tmp_path):
    with pytest.raises(ConfigError, match="use perceptron"):
        learn(digits_config, tmp_path / "run", model={"backbone": "alexnet"})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("side", ["train", "test"])
def test_a_broken_image_leaves_no_run_behind(side, shapes, shapes_config, tmp_path):
    shutil.copytree(shapes, tmp_path / "shapes")
    broken = min((tmp_path / "shapes" / "round" / side / "red").iterdir())
    broken.write_bytes(broken.read_bytes()[:60])
    config = {**shapes_config, "data": {"source": "folder", "root": str(tmp_path / "shapes")}}
    with pytest.raises(ImageError, match=broken.name):
        learn(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_training_photo_that_is_gone_stops_only_the_task_that_needs_it(shapes, shapes_config, tmp_path):
    shutil.copytree(shapes, tmp_path / "shapes")
    config = {**shapes_config, "data": {"source": "folder", "root": str(tmp_path / "shapes")}}
    run = learn(config, tmp_path / "run", stop_after=1)
    (tmp_path / "shapes" / "round" / "train" / "red" / "0.png").unlink()
    assert run.result(fresh=True).learned == [["round"]]
    (tmp_path / "shapes" / "square" / "train" / "red" / "0.png").unlink()
    with pytest.raises(RunError, match="square cannot be learned: 1 training photo was removed or edited"):
        learn(config, tmp_path / "run", resume=True)


def test_a_run_records_what_it_needed(digits_config, tmp_path):
    run = learn(digits_config, tmp_path / "run", training__epochs=1)
    memory = [run.stage(number)["memory"] for number in range(1, 6)]
    shared = 4 * (64 * 32 + 32 + 32 * 32 + 32)
    assert [each["stored_bytes"] for each in memory] == [2 * shared] * 5
    assert memory[1]["model_bytes"] - memory[0]["model_bytes"] == 4 * (32 * 2 + 2)
    assert run.description()["data"] == "split digits"


def test_ridge_learns_classes_in_closed_form(shapes_config, tmp_path):
    run = learn(shapes_config, tmp_path / "run", strategy={"name": "ridge", "shrinkage": "auto"})
    result = run.result()
    assert result.final.average > 0.6
    assert not [line for line in run.metrics() if line["event"] == "epoch"]
