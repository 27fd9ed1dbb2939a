"""Three tasks and five `learn --data` calls, with new facts, new words and old photos deleted in between."""

import csv
import json
import random

import numpy as np
import pytest
import yaml

from factlearn.facts import Fact
from factlearn.files import write_json
from factlearn.learning.additions import learn_data
from factlearn.learning.runs import Run
from tests.cli.commands import output_of
from tests.docs.miniature import draw
from tests.learning.helpers import assert_same_run
from tests.learning.test_additions import interrupted

FACTS = (
    "<person, riding, bike>", "<dog, jumping>", "<tree>",
    "<cat>", "<person, eating, pizza>", "<dog, running>", "<red kite>", "<person, sailing, boat>",
)  # fmt: skip
"""One per task; each of the last five brings at least one new word."""
PLANNED = 3
TRAINED, TESTED = 8, 4


def write_task(folder, number):
    """The photos of one task with a manifest of their own; its rows."""
    fact = Fact.parse(FACTS[number])
    rows = []
    for seed in range(TRAINED + TESTED):
        name = f"{number}-{seed}.png"
        draw(folder / name, number, seed)
        rows.append((name, "train" if seed < TRAINED else "test", fact.subject, fact.predicate, fact.object))
    return rows


def write_manifest(path, rows):
    """A manifest of these rows."""
    with open(path, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("path", "split", "subject", "predicate", "object"))
        writer.writerows(rows)


@pytest.fixture
def life(config, tmp_path):
    """A folder with the photos of eight tasks, a config of all and one of the first three."""
    words = sorted({word for fact in FACTS for unit in Fact.parse(fact).units for word in unit.split()})
    values = np.random.default_rng(1).normal(size=(len(words), 8))
    lines = [f"{word} {' '.join(f'{x:.6f}' for x in row)}\n" for word, row in zip(words, values, strict=True)]
    (tmp_path / "words.txt").write_text("".join(lines))
    rows = [write_task(tmp_path, number) for number in range(len(FACTS))]
    tasks = [{"name": f"task {number}", "facts": [fact]} for number, fact in enumerate(FACTS, 1)]
    for name, count in (("eight", len(FACTS)), ("three", PLANNED)):
        write_manifest(tmp_path / f"{name}.csv", [row for each in rows[:count] for row in each])
        write_json(tmp_path / f"{name}.json", {"tasks": tasks[:count]})
        changed = {
            "data": {"source": "manifest", "manifest": f"{name}.csv"},
            "tasks": {"method": "file", "file": f"{name}.json"},
            "language": {"vectors": "words.txt"},
            "evaluation": {},
            "training": {**config["training"], "epochs": 2},
        }
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({**config, **changed}))
    for number in range(PLANNED, len(FACTS)):
        write_manifest(tmp_path / f"task {number + 1}.csv", rows[number])
    return tmp_path


def delete_learned(folder, learned):
    """Delete the training photos of the first tasks."""
    for number in range(learned):
        for seed in range(TRAINED):
            (folder / f"{number}-{seed}.png").unlink(missing_ok=True)


def test_five_tasks_added_to_three_end_where_eight_planned_ahead_end(life):
    output_of("train", "eight.yaml", "--out", "planned", cwd=life)
    output_of("train", "three.yaml", "--out", "grown", cwd=life)
    for number in range(PLANNED, len(FACTS)):
        delete_learned(life, number)
        output_of("learn", "grown", "--data", f"task {number + 1}.csv", cwd=life)
    planned, grown = (json.loads(output_of("evaluate", run, "--json", cwd=life)) for run in ("planned", "grown"))
    assert grown["tasks"] == planned["tasks"]
    assert len(grown["tasks"]) == 8
    assert abs(grown["map_all"] - planned["map_all"]) <= 0.02
    guesses = json.loads(output_of("predict", "grown", "7-11.png", "--top", 9, "--json", cwd=life))
    assert {guess["label"] for guess in guesses} == {*FACTS, "none of these"}


@pytest.mark.slow
def test_five_calls_each_killed_at_random_and_repeated_give_the_same_bits(life):
    draw_moment = random.Random(11)
    kills = []
    for name in ("whole", "cut"):
        output_of("train", "three.yaml", "--out", name, cwd=life)
    for number in range(PLANNED, len(FACTS)):
        delete_learned(life, number)
        data, killed = life / f"task {number + 1}.csv", 0
        learn_data(life / "whole", data)
        moment = draw_moment.randint(1, 20)
        while interrupted(moment, life / "cut", data):
            killed += 1
            moment = draw_moment.randint(1, 60)
        kills.append(killed)
    assert all(kills), kills
    assert_same_run(Run.open(life / "whole"), Run.open(life / "cut"))
