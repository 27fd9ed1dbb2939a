import csv
import io
import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from factlearn.cli import app
from factlearn.data.registry import open_facts
from factlearn.errors import ConfigError
from factlearn.experiments.tuning import held_out_manifest, tune
from factlearn.learning.config import load_config, parse_config
from factlearn.learning.runs import Run

pytestmark = pytest.mark.usefixtures("cache")


def test_held_out_images_are_training_images_a_fifth_of_each_fact(sports_data):
    train = open_facts(load_config(sports_data).data, 0).of_split("train")
    rows = list(csv.DictReader(io.StringIO(held_out_manifest(train, 0))))
    assert {row["path"] for row in rows} == {str(sample.path.resolve()) for sample in train.samples}
    held = Counter((row["subject"], row["predicate"], row["object"]) for row in rows if row["split"] == "test")
    assert len(held) == 7
    assert set(held.values()) == {1}
    assert held_out_manifest(train, 0) != held_out_manifest(train, 1)


def test_the_largest_acceptable_lambda_is_chosen_and_only_the_new_task_decides(sports_data, tmp_path):
    config = load_config(sports_data)
    found = tune(config, tmp_path, rates=(0.05,), strengths=(0.01, 1e9), accept=0.3)
    tried = [trial for trial in found.trials if trial.what == "lambda"]
    assert [trial.value for trial in tried[:2]] == [0.0, 1e9]
    acceptable = [trial.value for trial in tried[1:] if trial.score >= 0.3 * found.reference]
    assert found.strength == max(acceptable)
    assert found.overrides() == ["training.learning_rate=0.05", f"strategy.lambda={found.strength:g}"]
    run = Run.open(tmp_path / "rate-0.05-mas" / "lambda-0")
    test = open_facts(config.data, 0).of_split("test")
    looked_at = {sample.path for sample in run.data.samples}
    assert looked_at.isdisjoint({sample.path.resolve() for sample in test.samples})


def test_tuning_resumes_where_it_was_interrupted(sports_data, tmp_path):
    config = load_config(sports_data)
    first = tune(config, tmp_path, rates=(0.05,), strengths=(1.0,), accept=0.1)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")}
    assert tune(config, tmp_path, rates=(0.05,), strengths=(1.0,), accept=0.1) == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")} == stamps


def test_a_method_without_lambda_gets_a_learning_rate_alone(sports_data, tmp_path):
    config = load_config(sports_data, ["strategy={name: finetune}"])
    found = tune(config, tmp_path, rates=(0.0001, 0.05))
    assert found.strength is None
    assert found.learning_rate == max(found.trials, key=lambda trial: trial.score).value


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--set", "strategy={name: joint}"], "nothing to tune"),
        (["--lambdas", "one,two"], "numbers separated by commas"),
        (["--lambdas", "-1"], "must be above 0"),
        (["--accept", "2"], "between 0 and 1"),
        (["--set", "tasks.count=1"], "second task after a first"),
    ],
)
def test_bad_requests_get_one_sentence(options, sentence, sports_data, tmp_path):
    refused = CliRunner().invoke(app, ["tune", str(sports_data), "--out", str(tmp_path), *options])
    assert isinstance(refused.exception, ConfigError)
    assert sentence in str(refused.exception)


def test_the_command_prints_the_choice_as_options(sports_data, tmp_path):
    options = ["--rates", "0.05", "--lambdas", "0.1", "--accept", "0.1", "--out", str(tmp_path)]
    shown = CliRunner().invoke(app, ["tune", str(sports_data), *options])
    assert "--set training.learning_rate=0.05 --set strategy.lambda=0.1" in shown.stdout
    as_json = CliRunner().invoke(app, ["tune", str(sports_data), *options, "--json"])
    assert json.loads(as_json.stdout)["strength"] == 0.1


def test_classes_are_tuned_on_held_out_training_images(shapes_config, shapes, tmp_path):
    config = parse_config(shapes_config, "test")
    found = tune(config, tmp_path, rates=(0.05,), strengths=(0.1,), accept=0.1)
    assert found.strength == 0.1
    run = Run.open(tmp_path / "rate-0.05-mas" / "lambda-0.1")
    assert run.finished_stages() == 2
    for task in run.data.tasks:
        held = [path.resolve() for path in task.test.paths]
        assert {path.parent.parent for path in held} == {(shapes / task.name / "train").resolve()}
        assert len(held) == len(task.classes)  # one of five of each
        assert not set(held) & {path.resolve() for path in task.train.paths}
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")}
    assert tune(config, tmp_path, rates=(0.05,), strengths=(0.1,), accept=0.1) == found
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")} == stamps


def test_rows_of_numbers_are_not_tuned(digits_config, tmp_path):
    with pytest.raises(ConfigError, match="rows of numbers"):
        tune(parse_config(digits_config, "test"), tmp_path)
