"""Teaching a finished run more, pruning it, and reporting on it when photos are gone, as users type it."""

import json
import shutil

import pytest
import yaml

from tests.cli.commands import factlearn, output_of
from tests.conftest import draw_shape
from tests.learning.growing import write_manifest


@pytest.fixture
def mine(place, tmp_path):
    """A folder with a finished run of the user's own photos, and a config for more."""
    photos = write_manifest(tmp_path / "photos", "facts.csv", range(4))
    raw = yaml.safe_load((place / "config.yaml").read_text())
    raw["data"]["manifest"] = str(photos)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(raw))
    output_of("train", "config.yaml", "--out", "runs/mas", cwd=tmp_path)
    return tmp_path


def test_a_finished_run_is_taught_new_facts_after_its_photos_are_gone(mine):
    write_manifest(mine / "new", "harvest.csv", [4, 5], split=False)
    shutil.rmtree(mine / "photos")
    done = factlearn("learn", "runs/mas", "--data", "new/harvest.csv", "--epochs", 1, cwd=mine)
    assert done.returncode == 0, done.stderr
    assert "36 photos gone" in done.stderr
    assert "harvest" in done.stdout
    assert "Nothing to do" in factlearn("learn", "runs/mas", "--data", "new/harvest.csv", cwd=mine).stderr
    assert json.loads(output_of("evaluate", "runs/mas", "--json", cwd=mine))["tasks"][-1] == "harvest"
    output_of("report", "runs/mas", "--out", "report.html", cwd=mine)
    guesses = json.loads(output_of("predict", "runs/mas", "new/5-0.png", "--top", 9, "--json", cwd=mine))
    assert "<tree>" in [guess["label"] for guess in guesses]


def test_a_finished_classifier_is_taught_new_classes_after_its_photos_are_gone(class_place, shapes, tmp_path):
    shutil.copytree(shapes, tmp_path / "shapes")
    raw = yaml.safe_load((class_place / "config.yaml").read_text())
    raw["data"]["root"] = str(tmp_path / "shapes")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(raw))
    output_of("train", "config.yaml", "--out", "run", cwd=tmp_path)
    for colour in ("red", "blue"):
        for seed in range(20, 26):
            draw_shape(tmp_path / "flags" / colour / f"{seed}.png", "square", colour, seed)
    shutil.rmtree(tmp_path / "shapes" / "round")
    assert "flags" in output_of("learn", "run", "--data", "flags", cwd=tmp_path)
    output_of("report", "run", "--out", "report.html", cwd=tmp_path)
    (guess,) = json.loads(output_of("predict", "run", "flags/red/20.png", "--task", "flags", "--json", cwd=tmp_path))
    assert guess["task"] == "flags"


def test_a_row_appended_and_a_photo_deleted_stop_nothing(mine):
    with open(mine / "photos" / "facts.csv", "a") as stream:
        stream.write("0-0.png,train,person,jumping,\n")
    (mine / "photos" / "0-8.png").unlink()
    for command in (("evaluate", "runs/mas", "--fresh"), ("report", "runs/mas", "--out", "report.html")):
        done = factlearn(*command, cwd=mine)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("1 new row ignored, 1 photo gone.") == 1


def test_adapting_a_finished_run_is_no_dead_end(mine):
    fact = json.loads((mine / "runs" / "mas" / "tasks.json").read_text())["tasks"][0]["facts"][0]
    (mine / "keep.txt").write_text(fact + "\n")
    said = output_of("adapt", "runs/mas", "--facts", "keep.txt", "--out", "adapted", cwd=mine)
    assert "continue with: factlearn learn adapted --data NEW.csv" in said
    done = factlearn("learn", "adapted", cwd=mine)
    assert done.returncode == 2
    assert "teach it more with `factlearn learn adapted --data NEW.csv`" in done.stderr
    write_manifest(mine / "new", "harvest.csv", [4])
    shutil.rmtree(mine / "photos")
    done = factlearn("learn", "adapted", "--data", "new/harvest.csv", cwd=mine)
    assert done.returncode == 0, done.stderr
    assert "nothing is added to what protects them" in done.stderr


def test_runs_are_listed_and_pruned(mine):
    (before,) = json.loads(output_of("runs", "list", "--json", cwd=mine))
    assert "runs/mas" in output_of("runs", "list", cwd=mine)
    assert "MB freed" in output_of("runs", "prune", "runs/mas", cwd=mine)
    (after,) = json.loads(output_of("runs", "list", "--json", cwd=mine))
    assert before["bytes"] - before["prunable_bytes"] == after["bytes"]
    output_of("report", "runs/mas", "--out", "report.html", cwd=mine)
    done = factlearn("evaluate", "runs/mas", "--fresh", cwd=mine)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Stage 1 of runs/mas was pruned" in done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--data", "none.csv"], "does not exist"),
        (["--data", "photos"], "is not a manifest of facts"),
        (["--name", "x"], "give its data with --data"),
        (["--data", "photos/facts.csv", "--tasks", 1], "leave them out with --data"),
        (["--data", "photos/facts.csv", "--name", "task 1"], "is a task already"),
    ],
)
def test_what_cannot_be_taught_is_refused_in_one_sentence(mine, options, says):
    done = factlearn("learn", "runs/mas", *options, cwd=mine)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
