import json

import pytest
import yaml
from typer.testing import CliRunner

from factlearn.classification.config import load_classify_config
from factlearn.experiments import classification_tables as tables
from factlearn.experiments.classification import METHODS, app
from factlearn.experiments.classification_cells import Sweep

runner = CliRunner()


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "digits.yaml"
    values = {
        "device": "cpu",
        "data": {"source": "permuted-digits", "count": 2},
        "model": {"architecture": "perceptron", "hidden": [24], "dropout": 0.0},
        "training": {"epochs": 2, "batch_size": 100, "learning_rate": 0.05, "momentum": 0.9},
        "strategy": {"name": "mas"},
    }
    path.write_text(yaml.safe_dump(values))
    return path


def call(*arguments):
    result = runner.invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_method_gets_a_row_and_nothing_is_learned_twice(config, tmp_path):
    arguments = ("methods", config, "--seeds", 2, "--out", tmp_path / "out", "--names", "finetune,joint,mas,lwf")
    shown = call(*arguments)
    assert all(name in shown for name in ("finetune", "joint", "mas", "lwf", "±"))
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.json")}
    assert len(files) == 8
    assert not list((tmp_path / "out").rglob("*.safetensors"))
    assert call(*arguments).split() == shown.split()
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert {"tasks.svg", "memory.svg"} <= {path.name for path in (tmp_path / "out").rglob("*.svg")}


def test_lambda_is_chosen_on_a_seed_that_is_not_reported(config, tmp_path):
    shown = call("tune", config, "--names", "mas", "--grid", "0.1,10", "--out", tmp_path)
    assert shown.startswith("mas: lambda ")
    seeds = {json.loads(path.read_text())["config"]["seed"] for path in tmp_path.rglob("*-tune/*.json")}
    assert seeds == {100}


def test_the_largest_acceptable_lambda_is_chosen(config, tmp_path):
    from dataclasses import replace

    cell = Sweep(tmp_path, keep_runs=False).cell(load_classify_config(config))
    cells = {0.1: replace(cell, average=0.5), 1.0: replace(cell, average=0.495), 10.0: replace(cell, average=0.48)}
    assert tables.tuning_line("mas", cells).startswith("mas: lambda 1 ")


def test_pairs_importance_and_lambda_curve(config, tmp_path):
    first = call("pairs", config, "--names", "mas,finetune", "--sequences", "order 1:order 2", "--out", tmp_path)
    assert "finetune" in first
    shown = call("pairs", config, "--importance", "--sequences", "order 1:order 2", "--out", tmp_path)
    assert all(f"l-mas, {source}" in shown for source in ("train", "test", "both"))
    picture = tmp_path / "lambda.svg"
    call("lambdas", config, "--grid", "0.1,10", "--seeds", 2, "--out", tmp_path, "--picture", picture)
    svg = picture.read_text()
    assert "<svg" in svg


def test_one_class_is_compared_with_plain_mas(config, tmp_path):
    shown = call("one-class", config, "--classes", "order 1/3,order 1/5", "--seeds", 1, "--out", tmp_path)
    assert shown.count("this class") == 3
    assert "mean of all" in shown


@pytest.mark.parametrize("name", ["emoji8", "eight", "pairs", "one_class", "permuted", "split"])
def test_the_projects_configs_are_valid_for_every_method_and_scale(name):
    from pathlib import Path

    path = Path(__file__).parents[2] / "configs" / "classify" / f"{name}.yaml"
    scales = ["full", *(yaml.safe_load(path.read_text()).get("scales") or {})]
    for scale in scales:
        for method in (*METHODS, "mas-vector"):
            config = load_classify_config(path, [f"scale={scale}", f"strategy.name={method}"])
            assert config.strategy.name == method
    assert ("small" in scales) == (name in ("eight", "pairs", "one_class"))
