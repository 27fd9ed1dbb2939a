"""Every command as a user calls it, with what a user gets wrong."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest
import yaml
from typer.testing import CliRunner

from factlearn.cli import app, main

runner = CliRunner()


@dataclass(frozen=True)
class Done:
    returncode: int
    stderr: str


def call(*arguments, command=("classify",)):
    """The real entry point, so that errors become sentences and exit codes."""
    asked, out, errors = sys.argv, io.StringIO(), io.StringIO()
    sys.argv = ["factlearn", *command, *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(errors):
            main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = asked
    return Done(code, errors.getvalue())


@pytest.fixture
def config(shapes_config, tmp_path):
    path = tmp_path / "shapes.yaml"
    path.write_text(yaml.safe_dump({**shapes_config, "training": {**shapes_config["training"], "epochs": 2}}))
    return path


@pytest.fixture
def run(config, tmp_path):
    result = runner.invoke(app, ["classify", "train", str(config), "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    return tmp_path / "run"


def test_train_evaluate_and_predict(config, run, shapes):
    shown = runner.invoke(app, ["classify", "evaluate", str(run), "--json"])
    values = json.loads(shown.stdout)
    assert values["tasks"] == ["round", "square"]
    assert 0 <= values["average_accuracy"] <= 1
    assert {"forgetting", "forward_transfer", "task_free_accuracy", "learned_accuracy"} <= values.keys()
    memory = json.loads(runner.invoke(app, ["memory", str(run), "--json"]).stdout)
    assert [row["stage"] for row in memory] == [1, 2]
    image = shapes / "round" / "test" / "red" / "5.png"
    told = json.loads(
        runner.invoke(app, ["classify", "predict", str(run), str(image), "--task", "square", "--json"]).stdout
    )
    assert [guess["task"] for guess in told] == ["square"]
    free = json.loads(
        runner.invoke(app, ["classify", "predict", str(run), str(image.parent), "--top", "6", "--json"]).stdout
    )
    assert len(free) == 3 * 6
    assert sum(guess["probability"] for guess in free[:6]) == pytest.approx(2, abs=1e-4)  # two heads, each adds to one
    assert free[0]["probability"] == max(guess["probability"] for guess in free[:6])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["strategy.name=msa"], "strategy"),
        (["data.root=/nowhere"], "does not exist"),
        (["data.tasks=[rond]"], "no task 'rond'"),
        (["data.source=paper"], "is not in"),
        (["model.weights=/no.safetensors"], "does not exist"),
        (["scale=small"], "no scale"),
    ],
)
def test_a_config_that_cannot_be_carried_out_is_one_sentence_and_code_2(config, overrides, message, tmp_path):
    done = call("train", config, "--out", tmp_path / "run", *(part for each in overrides for part in ("--set", each)))
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_predicting_what_is_no_image_is_one_sentence_and_code_2(run, tmp_path, shapes):
    text, empty = tmp_path / "notes.txt", tmp_path / "empty"
    text.write_text("hello")
    empty.mkdir()
    broken = tmp_path / "broken.png"
    broken.write_bytes((shapes / "round" / "test" / "red" / "5.png").read_bytes()[:80])
    for images, message in (
        ([text], "not an image"),
        ([tmp_path / "missing.png"], "does not exist"),
        ([empty], "holds no images"),
        ([broken], "damaged or truncated"),
    ):
        done = call("predict", run, *images)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert message in done.stderr


def test_a_place_that_is_no_run_is_one_sentence_and_code_2(tmp_path, run):
    for arguments, message in (
        (("evaluate", tmp_path), "holds no run"),
        (("predict", run, "x.png", "--task", "triangle"), "has not learned a task 'triangle'"),
        (("predict", run, "x.png", "--stage", "9"), "no stage 9"),
        (("train", tmp_path / "no.yaml"), "does not exist"),
    ):
        done = call(*arguments)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert message in done.stderr


def test_a_run_on_rows_cannot_look_at_images(digits_config, tmp_path):
    (tmp_path / "d.yaml").write_text(yaml.safe_dump(digits_config))
    assert call("train", tmp_path / "d.yaml", "--out", tmp_path / "d", "--tasks", "1").returncode == 0
    done = call("predict", tmp_path / "d", "x.png")
    assert done.returncode == 2
    assert "rows of 64 numbers" in done.stderr


def test_runs_of_facts_and_of_classes_are_told_apart(run):
    done = call(run, command=("evaluate",))
    assert done.returncode == 2
    assert "another kind of run" in done.stderr
