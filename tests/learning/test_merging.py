"""Runs trained apart become the one run that would have seen all their photos."""

import pytest
import yaml

from factlearn.errors import RunError
from factlearn.files import write_json
from factlearn.indexing.building import build_index
from factlearn.learning.additions import learn_data
from factlearn.learning.merging import merge
from tests.conftest import FACTS
from tests.learning.closed_form import assert_same_knowledge, classes_run, facts_run
from tests.learning.growing import write_manifest
from tests.learning.helpers import learn


@pytest.mark.parametrize("readout", ["distance", "posterior"])
def test_merged_facts_are_those_of_one_run_that_saw_all(config, tmp_path, readout):
    one = facts_run(config, tmp_path, "one", [[0, 1], [2]], readout=readout)
    two = facts_run(config, tmp_path, "two", [[3], [4]], readout=readout)
    both = merge(one, two, tmp_path / "both")
    whole = facts_run(config, tmp_path, "whole", [[0, 1], [2], [3], [4]], readout=readout)
    assert_same_knowledge(both, whole, steps=10)  # a task of one fact, alone, tells nothing about the temperature
    assert both.task_names() == ["one 1", "one 2", "two 1", "two 2"]
    learn_data(both, write_manifest(tmp_path / "new", "new.csv", [5]))
    five = facts_run(config, tmp_path, "five", [[0, 1], [2], [3], [4], [5]], readout=readout)
    assert_same_knowledge(both, five, steps=10)
    assert both.result(fresh=True).final.headline() == both.result().final.headline()
    assert len(build_index(both, str(tmp_path / "five-pictures"), tmp_path / "index")) == 6 * 9


def test_merged_classes_are_those_of_one_run_that_saw_all(shapes_config, tmp_path):
    a, bb = ("a", "round", ("red", "green")), ("bb", "square", ("red", "green", "blue"))
    one, two = (classes_run(shapes_config, tmp_path, name, [each]) for name, each in (("one", a), ("two", bb)))
    whole = classes_run(shapes_config, tmp_path, "whole", [a, bb])
    assert_same_knowledge(merge(one, two, tmp_path / "both"), whole)


def test_runs_of_one_collection_list_each_photo_once(config, tmp_path):
    whole = facts_run(config, tmp_path, "whole", [[0, 1], [2, 3]])
    parts = []
    for name, group in (("one", FACTS[:2]), ("two", FACTS[2:4])):
        write_json(tmp_path / f"{name}.json", {"tasks": [{"name": name, "facts": [str(fact) for fact in group]}]})
        raw = yaml.safe_load(whole.config.to_yaml())
        raw["tasks"]["file"] = str(tmp_path / f"{name}.json")
        parts.append(learn(raw, tmp_path / name))
    both = merge(*parts, tmp_path / "both")
    assert len(both.data) == len(whole.data)
    assert_same_knowledge(both, whole, steps=10)


def test_tasks_of_the_same_name_get_a_number(config, tmp_path):
    one = facts_run(config, tmp_path, "one", [[0, 1]])
    (tmp_path / "apart").mkdir()
    two = facts_run(config, tmp_path / "apart", "one", [[2, 3]])
    assert merge(one, two, tmp_path / "both").task_names() == ["one 1", "one 1-2"]


def test_runs_that_do_not_fit_are_refused(config, shapes_config, tmp_path):
    one = facts_run(config, tmp_path, "one", [[0, 1], [2]])
    same = facts_run(config, tmp_path, "same", [[2, 3]])
    left = facts_run(config, tmp_path, "left", [[3], [4]], stop_after=1)
    random = [facts_run(config, tmp_path, f"random {n}", [[n]], model__hidden=[8], seed=n) for n in (3, 4)]
    for first, second, words in (
        (one, same, "6 of the same photos"),
        (one, left, "tasks left to learn"),
        (one, random[0], "config's model"),
        (*random, "hidden layers have other weights"),
        (one, classes_run(shapes_config, tmp_path, "c", [("a", "round", ("red", "green"))]), "config's learn"),
    ):
        with pytest.raises(RunError, match=words):
            merge(first, second, tmp_path / "both")
        assert not (tmp_path / "both").exists()
    assert FACTS[2] in one.data.facts
