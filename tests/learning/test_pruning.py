"""Pruning a run frees what only serves to go back, and nothing else."""

import pytest

from factlearn.errors import RunError
from factlearn.learning.additions import learn_data
from factlearn.learning.pruning import find_runs, prune, size_of
from factlearn.learning.runs import Run
from tests.learning.helpers import learn_interrupted, same_bits, tensors


def test_a_pruned_run_keeps_its_results_and_learns_on_to_the_same_bits(life, tmp_path):
    whole, run = life.begun(tmp_path / "whole"), life.begun(tmp_path / "run")
    before = size_of(run)
    results = run.result().to_json()
    assert prune(run) == before.prunable > 0
    after = size_of(run)
    assert after.size == before.size - before.prunable
    assert after.prunable == 0 == prune(run)
    assert Run.open(run.folder).result().to_json() == results
    assert run.outputs(1).keys() == whole.outputs(1).keys()
    with pytest.raises(RunError, match=r"Stage 1 of .*run was pruned: its results are kept, its model is not"):
        run.model(1)
    whole, run = (learn_data(each, life.later[0]) for each in (whole, run))
    assert same_bits(tensors(whole, 4, "model"), tensors(run, 4, "model"))


def test_as_many_stages_are_kept_as_asked_for(life, tmp_path):
    run = life.begun(tmp_path / "run", training__epochs=1)
    prune(run, keep=2)
    assert run.model(2).fingerprint() == run.stage(2)["model_fingerprint"]
    with pytest.raises(RunError, match="pruned"):
        run.model(1)
    with pytest.raises(RunError, match="At least the last stage"):
        prune(run, keep=0)


def test_a_checkpoint_in_the_middle_of_a_stage_is_kept(config, tmp_path):
    learn_interrupted(config, tmp_path / "run", 6)
    run = Run.open(tmp_path / "run")
    prune(run)
    assert run.checkpoint(2) is not None


def test_runs_are_found_in_a_folder_and_below(facts, tmp_path):
    facts.begun(tmp_path / "runs" / "deep" / "one", training__epochs=1, stop_after=1)
    (found,) = find_runs(tmp_path / "runs")
    about = found.to_json()
    assert (about["learned"], about["tasks"], about["strategy"]) == (1, 3, "mas")
    assert about["bytes"] > about["prunable_bytes"]
    with pytest.raises(RunError, match="holds no runs"):
        find_runs(tmp_path / "pictures-3")
