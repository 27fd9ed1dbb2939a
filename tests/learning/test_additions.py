"""Tasks added to a run one by one are, bit for bit, those of a run that planned them; of facts and classes alike."""

import shutil

import pytest

from factlearn.data.samples import FactDataset
from factlearn.errors import LanguageError, RunError
from factlearn.learning.additions import learn_data
from factlearn.learning.runs import Run
from factlearn.lifelong.registry import METHODS
from tests.learning.growing import LATER, classes, facts, write_manifest  # noqa: F401
from tests.learning.helpers import assert_same_run, same_bits, tensors

MERGES = ("imm-mean", "imm-mode")
"""Methods that change the network at the end of the sequence, which comes after the third task too when two are added."""


def methods(learn):
    return [name for name in METHODS if name != "joint" and learn in METHODS[name].problems]


@pytest.mark.parametrize("name", methods("facts"))
def test_facts_added_one_by_one_end_with_the_weights_of_tasks_planned_ahead(facts, tmp_path, name):  # noqa: F811
    """Although every photo of the first three tasks was deleted, and two words were new."""
    planned, grown = facts.planned(tmp_path / "planned", name), facts.grown(tmp_path / "grown", name)
    assert grown.task_names() == planned.task_names()
    for stage in (4, 5) if name in MERGES else range(1, 6):
        merged = name in MERGES and stage == 4
        assert merged or same_bits(tensors(planned, stage, "model"), tensors(grown, stage, "model")), stage
    assert same_bits(tensors(planned, 5, "strategy"), tensors(grown, 5, "strategy"))
    for stage in range(1, 4):
        for task in planned.stage(stage)["tasks"]:
            expected = planned.result().evaluations[stage - 1].task(task, "exact")
            merged = name in MERGES and stage == 3
            assert merged or grown.result().evaluations[stage - 1].task(task, "exact") == expected
    last = [run.result().final.exact.tasks["task 5"] for run in (planned, grown)]
    assert last[0] == last[1]
    assert grown.result().final.exact.tasks["task 1"].map is None  # its photos are gone


@pytest.mark.parametrize("name", methods("classes"))
def test_classes_added_one_by_one_end_with_the_weights_of_tasks_planned_ahead(classes, tmp_path, name):  # noqa: F811
    planned, grown = classes.planned(tmp_path / "planned", name), classes.grown(tmp_path / "grown", name)
    assert same_bits(tensors(planned, 5, "model"), tensors(grown, 5, "model"))
    assert same_bits(tensors(planned, 5, "strategy"), tensors(grown, 5, "strategy"))
    final = [run.result().final.accuracy for run in (planned, grown)]
    assert final[1]["task 5"] == final[0]["task 5"]
    assert "a" not in final[1]  # its photos are gone
    assert [len(grown.model(stage).suffix.heads) for stage in (1, 3, 4, 5)] == [3, 3, 4, 5]
    assert all(grown.model(stage).fingerprint() == grown.stage(stage)["model_fingerprint"] for stage in range(1, 6))
