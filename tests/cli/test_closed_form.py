"""Forgetting, merging and adapting runs in closed form, as users type it."""

import json

import pytest
import yaml

from tests.cli.commands import factlearn, output_of
from tests.learning.growing import write_manifest

CLOSED = ["strategy={name: ridge}", "model.hidden=[]", "model.standardise=false", "model.readout=posterior"]


@pytest.fixture(scope="module")
def closed(place, tmp_path_factory):
    """Two runs in closed form of photos of different facts."""
    folder = tmp_path_factory.mktemp("closed")
    raw = yaml.safe_load((place / "config.yaml").read_text())
    for name, facts in (("one", range(3)), ("two", range(3, 6))):
        raw["data"]["manifest"] = str(write_manifest(folder / name, "facts.csv", facts))
        raw["tasks"] = {"count": 1}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(raw))
        options = [word for each in CLOSED for word in ("--set", each)]
        output_of("train", f"{name}.yaml", "--out", f"runs/{name}", *options, cwd=folder)
    return folder


def test_a_fact_is_forgotten_and_two_runs_are_merged(closed):
    output_of("merge", "runs/one", "runs/two", "--out", "runs/both", cwd=closed)
    output_of("forget", "runs/both", "--fact", "<dog, jumping>", "--out", "runs/left", cwd=closed)
    assert json.loads(output_of("evaluate", "runs/left", "--json", cwd=closed))["tasks"] == ["task 1", "task 1-2"]
    said = output_of("predict", "runs/left", "two/3-0.png", "--top", 9, cwd=closed)
    assert "<dog, jumping>" not in said
    assert "<tree>" in said
    (closed / "sports.txt").write_text("<person, *, *>\n")
    output_of("adapt", "runs/left", "--facts", "sports.txt", "--out", "runs/sports", cwd=closed)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["forget", "runs/one", "--out", "x"], "Say what to forget"),
        (["forget", "runs/one", "--fact", "<tree>"], "either --out NEW"),
        (["forget", "runs/one", "--fact", "<tree>", "--out", "x"], "No fact"),
        (["forget", "runs/one", "--fact", "<tree", "--out", "x"], "<tree"),
        (["forget", "runs/one", "--facts", "no.txt", "--out", "x"], "no.txt"),
        (["forget", "runs/one", "--class", "tree", "--out", "x"], "learned facts"),
        (["forget", "runs/one", "--image", "no.png", "--out", "x"], "has not seen"),
        (["forget", "runs/none", "--fact", "<tree>", "--out", "x"], "holds no run"),
        (["merge", "runs/one", "runs/one", "--out", "x"], "same photos"),
        (["merge", "runs/one", "runs/none", "--out", "x"], "holds no run"),
        (["merge", "runs/one", "runs/two", "--out", "runs/one"], "exists already"),
        (["adapt", "runs/one", "--images", "one", "--out", "x"], "labelled photos"),
    ],
)
def test_mistakes_get_one_sentence_and_leave_nothing(closed, words, sentence):
    done = factlearn(*words, cwd=closed)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (closed / "x").exists()
