import json
import shutil

import pytest
import torch

from factlearn.classification.config import ClassifyConfig
from factlearn.classification.data import example_inputs, open_sequence
from factlearn.classification.results import load_model, load_result
from factlearn.classification.runs import ClassRun
from factlearn.classification.training import train, train_or_reuse
from factlearn.config import parse_as
from factlearn.errors import ConfigError, FactlearnError, ImageError, RunError
from factlearn.learning.runs import load_tensors
from factlearn.lifelong.importance import estimate
from factlearn.models.inputs import in_order

METHODS = ["finetune", "joint", "mas", "l-mas", "mas-vector", "ewc", "si", "lwf", "ebll", "imm-mean", "imm-mode"]


def learn(config, folder, strategy="mas", **how):
    settings = {"name": strategy} if isinstance(strategy, str) else strategy
    return train(parse_as(ClassifyConfig, {**config, "strategy": settings}, "test"), folder, **how)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_the_split_digits(name, digits_config, tmp_path):
    result = load_result(learn(digits_config, tmp_path / "run", name))
    assert result.average > 0.7
    assert result.sequential == (name != "joint")
    assert [len(stage) for stage in result.predictions] == ([5] if name == "joint" else [1, 2, 3, 4, 5])


def test_images_are_learned_through_a_frozen_prefix(shapes_config, tmp_path):
    result = load_result(learn(shapes_config, tmp_path / "run"))
    assert result.tasks == ["round", "square"]
    assert result.average > 0.6
    assert list((tmp_path / "cache" / "activations").rglob("*.npy"))


def test_a_head_does_not_change_after_its_task_and_shared_layers_do(digits_config, tmp_path):
    run = learn(digits_config, tmp_path / "run", "finetune")
    first, last = (load_tensors(run.stage_folder(stage) / "model.safetensors") for stage in (1, 5))
    assert torch.equal(first["heads.0.weight"], last["heads.0.weight"])
    assert not torch.equal(first["heads.4.weight"], last["heads.4.weight"])
    assert not torch.equal(first["shared.0.weight"], last["shared.0.weight"])


def test_a_finished_run_is_used_again_and_another_config_replaces_it(digits_config, tmp_path, monkeypatch):
    config = parse_as(ClassifyConfig, digits_config, "test")
    train_or_reuse(config, tmp_path / "run")
    written = (tmp_path / "run" / "metrics.jsonl").stat().st_mtime_ns
    train_or_reuse(config, tmp_path / "run")
    assert (tmp_path / "run" / "metrics.jsonl").stat().st_mtime_ns == written
    train_or_reuse(config.model_copy(update={"seed": 1}), tmp_path / "run")
    assert ClassRun.open(tmp_path / "run").config.seed == 1


@pytest.mark.parametrize("source", ["test", "both", ["round/red"], "folder"])
def test_importance_can_come_from_other_images(source, shapes, shapes_config, tmp_path):
    where = str(shapes / "round" / "test") if source == "folder" else source
    plain = learn(shapes_config, tmp_path / "plain")
    other = learn(shapes_config, tmp_path / "other", {"name": "mas", "importance": where})
    omegas = [load_tensors(run.stage_folder(1) / "strategy.safetensors") for run in (plain, other)]
    assert not torch.equal(omegas[0]["omega.shared.0.weight"], omegas[1]["omega.shared.0.weight"])
    assert all(bool((value >= 0).all()) for name, value in omegas[1].items() if name.startswith("omega"))


def test_importance_of_a_class_is_measured_with_its_own_head(shapes_config, tmp_path):
    run = learn(shapes_config, tmp_path / "run", {"name": "mas", "importance": ["round/red"]})
    sequence = open_sequence(run.config.data, 0)
    model = load_model(run, 2)
    task, label = sequence.find_class("round/red")
    inputs = example_inputs(run.config, model, [sequence.tasks[task].train.of_class(label)])
    second = estimate(model.suffix.of_task(0), in_order(inputs, 8)).mean()["shared.0.weight"]
    first, total = (load_tensors(run.stage_folder(n) / "strategy.safetensors")["omega.shared.0.weight"] for n in (1, 2))
    torch.testing.assert_close(total - first, second, rtol=1e-3, atol=1e-6)


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
        learn(shapes_config, tmp_path / "run", {"name": "mas", "importance": importance})
    assert not (tmp_path / "run").exists()


def test_rows_need_a_perceptron(digits_config, tmp_path):
    with pytest.raises(ConfigError, match="use perceptron"):
        learn({**digits_config, "model": {"architecture": "alexnet"}}, tmp_path / "run")


def test_a_broken_image_leaves_no_run_behind(shapes, shapes_config, tmp_path):
    shutil.copytree(shapes, tmp_path / "shapes")
    broken = tmp_path / "shapes" / "round" / "train" / "red" / "0.png"
    broken.write_bytes(broken.read_bytes()[:60])
    config = {**shapes_config, "data": {"source": "folder", "root": str(tmp_path / "shapes")}}
    with pytest.raises(ImageError, match=r"0\.png"):
        learn(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_changed_data_is_noticed(shapes, shapes_config, tmp_path):
    shutil.copytree(shapes, tmp_path / "shapes")
    config = {**shapes_config, "data": {"source": "folder", "root": str(tmp_path / "shapes")}}
    run = learn(config, tmp_path / "run", stop_after=1)
    (tmp_path / "shapes" / "round" / "train" / "red" / "0.png").unlink()
    with pytest.raises(RunError, match="has changed"):
        load_result(run)
    with pytest.raises(RunError, match="has changed"):
        learn(config, tmp_path / "run", resume=True)


def test_a_run_records_what_it_needed(digits_config, tmp_path):
    run = learn(digits_config, tmp_path / "run", "mas")
    memory = [run.stage(number)["memory"] for number in range(1, 6)]
    shared = 4 * (64 * 32 + 32 + 32 * 32 + 32)
    assert [each["stored_bytes"] for each in memory] == [2 * shared] * 5
    assert memory[1]["model_bytes"] - memory[0]["model_bytes"] == 4 * (32 * 2 + 2)
    assert json.loads((run.folder / "run.json").read_text())["data"] == "split digits"
