"""Photos that show several facts: learned with each of them, looked at once, right by any of them."""

import csv
import shutil

import numpy as np
import pytest

from factlearn.errors import DatasetError
from factlearn.evaluation.ranking import average_precision
from factlearn.evaluation.scoring import masked_scores
from factlearn.experiments.tuning import held_out_manifest
from factlearn.facts import Fact
from factlearn.indexing.building import build_index
from factlearn.learning.additions import learn_data
from factlearn.learning.facts import FactProblem
from factlearn.learning.facts import test_vectors as vectors_of
from factlearn.learning.runs import Run
from factlearn.lifelong.registry import METHODS
from tests.conftest import FACTS
from tests.learning.growing import settings
from tests.learning.helpers import learn, parsed

BIKE, TREE, DOG = FACTS[0], FACTS[5], Fact("dog")
QUICK = ("mas", "ridge")


def write(path, rows):
    with open(path, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("path", "split", "subject", "predicate", "object", "topic"))
        writer.writerows(rows)


@pytest.fixture
def several(config, manifest, tmp_path):
    """Two tasks by topic; photos of `<person, riding, bike>`, of the first one, also show a tree, of the second."""
    folder = tmp_path / "pictures"
    shutil.copytree(manifest.parent, folder)
    rows = []
    for number, fact in enumerate(FACTS):
        topic = "things" if number > 3 else "deeds"
        for seed in range(9):
            split = "train" if seed < 6 else "test"
            rows.append((f"{number}-{seed}.png", split, fact.subject, fact.predicate, fact.object, topic))
            if fact == BIKE:
                rows.append((f"{number}-{seed}.png", split, "tree", "", "", "things"))
    write(folder / "facts.csv", rows)
    data = {"source": "manifest", "manifest": str(folder / "facts.csv")}
    return {**config, "data": data, "tasks": {"method": "column", "column": "topic"}}


@pytest.mark.parametrize("readout", ["distance", "posterior"])
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in METHODS])
def test_every_method_learns_a_photo_in_the_task_of_each_of_its_facts(several, tmp_path, name, readout):
    run = learn(several, tmp_path / "run", strategy=settings(name), model__readout=readout, training__epochs=2)
    assert [(task.name, TREE in task.facts) for task in run.tasks().tasks] == [("deeds", False), ("things", True)]
    final = run.result().final
    assert final.exact.whole.images == 18
    assert (final.exact.tasks["deeds"].images, final.exact.tasks["things"].images) == (12, 9)
    assert final.exact.image_to_fact.images == 18
    assert len(vectors_of(run, 1)) == 18


def test_a_task_learns_from_its_own_facts_of_a_photo(several):
    problem = FactProblem.plan(parsed(several))
    shown = [[sample.facts for sample in problem._samples([task], "train")] for task in (0, 1)]
    assert (BIKE,) in shown[0]
    assert (TREE,) in shown[1]
    assert all(set(facts) <= set(problem.split.tasks[task].facts) for task in (0, 1) for facts in shown[task])
    assert [len(problem.stage_data([task]).inputs) for task in (0, 1)] == [24, 18]
    joint = problem.stage_data([0, 1])
    assert len(joint.inputs) == len(joint.targets) == 42


def test_average_precision_counts_a_photo_once_and_as_relevant_by_any_of_its_facts(several, tmp_path):
    run = learn(several, tmp_path / "run", strategy={"name": "finetune"})
    test = run.data.of_split("test").samples
    for fact in (TREE, BIKE):
        scores = masked_scores(vectors_of(run, 2), *run.language().embed([fact]))[0]
        expected = average_precision(scores, [fact in sample.facts for sample in test], [s.id for s in test])
        assert run.result().final.exact.whole.average_precision[str(fact)] == expected
    assert sum(TREE in sample.facts for sample in test) == 6


def test_a_stopped_run_of_photos_with_several_facts_continues_from_its_own_record(several, tmp_path):
    whole = learn(several, tmp_path / "whole")
    learn(several, tmp_path / "cut", stop_after=1)
    cut = learn(several, tmp_path / "cut", resume=True)
    np.testing.assert_array_equal(vectors_of(whole, 2), vectors_of(cut, 2))
    assert cut.data == whole.data
    assert cut.data.samples[0].facts == (BIKE, TREE)
    assert cut.data.fingerprint == whole.data.fingerprint


def test_a_photo_taught_again_with_another_fact_is_still_one_photo(several, tmp_path):
    run = learn(several, tmp_path / "run", strategy={"name": "ridge"}, model__readout="posterior")
    folder = tmp_path / "pictures"
    write(
        folder / "dogs.csv",
        [(f"3-{seed}.png", "train" if seed < 6 else "test", "dog", "", "", "") for seed in range(9)],
    )
    learn_data(run, folder / "dogs.csv")
    grown = Run.open(run.folder)
    assert len(grown.data) == 54
    assert grown.data.of_facts([DOG]).samples[0].id == "3-0.png"
    assert grown.result().final.exact.whole.images == 18
    assert grown.result().final.exact.tasks["dogs"].images == 3
    index = build_index(grown, "test", tmp_path / "index")
    assert len(index) == 18
    assert {hit.facts for hit in index.query("<dog>", k=18) if DOG in hit.facts} == {(FACTS[3], DOG)}
    write(folder / "leak.csv", [("4-0.png", "test", "dog", "", "", ""), ("4-1.png", "train", "dog", "", "", "")])
    with pytest.raises(
        DatasetError, match=r"leak\.csv: 4-0\.png is test, but train in .*run; a photo is for training or"
    ):
        learn_data(grown, folder / "leak.csv")


def test_a_validation_split_keeps_a_photo_on_one_side(several):
    train = FactProblem.plan(parsed(several)).dataset.of_split("train")
    rows = list(csv.DictReader(held_out_manifest(train, seed=0).splitlines()))
    assert len(rows) == 42
    sides = {row["path"]: row["split"] for row in rows}
    assert all(sides[row["path"]] == row["split"] for row in rows)
