import pytest
import torch

from factlearn.classification.config import ClassifyConfig
from factlearn.classification.runs import ClassRun
from factlearn.classification.training import train
from factlearn.config import parse_as
from factlearn.learning.runs import load_tensors
from tests.classification.test_training import learn


class Killed(Exception):
    pass


def states(run):
    return [
        load_tensors(run.stage_folder(stage) / f"{file}.safetensors")
        for stage in range(1, run.finished_stages() + 1)
        for file in ("model", "strategy", "predictions")
    ]


@pytest.mark.parametrize(("name", "at"), [("mas", (1, 1)), ("si", (2, 1)), ("ebll", (2, 1)), ("imm-mode", (2, 2))])
def test_a_killed_run_resumes_to_the_same_bits(name, at, shapes_config, tmp_path, monkeypatch):
    config = {**shapes_config, "training": {**shapes_config["training"], "epochs": 3}}
    strategy = {"name": name, **({"code_size": 4, "autoencoder_epochs": 2} if name == "ebll" else {})}
    whole = learn(config, tmp_path / "whole", strategy)
    keep = ClassRun.save_checkpoint

    def kill_after(run, checkpoint):
        keep(run, checkpoint)
        if (checkpoint.stage, checkpoint.epoch) == at:
            raise Killed

    monkeypatch.setattr(ClassRun, "save_checkpoint", kill_after)
    with pytest.raises(Killed):
        learn(config, tmp_path / "cut", strategy)
    monkeypatch.setattr(ClassRun, "save_checkpoint", keep)
    cut = learn(config, tmp_path / "cut", strategy, resume=True)
    for one, other in zip(states(whole), states(cut), strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
    assert [stage["loss"] for stage in whole.metrics() if "loss" in stage] == [
        stage["loss"] for stage in cut.metrics() if "loss" in stage
    ]
    assert whole.stage(2)["nearest_mean"] == cut.stage(2)["nearest_mean"]


def test_a_run_stops_after_some_tasks_and_goes_on(digits_config, tmp_path):
    config = parse_as(ClassifyConfig, {**digits_config, "strategy": {"name": "mas"}}, "test")
    whole = train(config, tmp_path / "whole")
    part = train(config, tmp_path / "part", stop_after=2)
    assert part.finished_stages() == 2
    train(config, tmp_path / "part", resume=True)
    assert all(
        torch.equal(one[key], other[key]) for one, other in zip(states(whole), states(part), strict=True) for key in one
    )
