import pytest
import torch

from factlearn.classification.adaptation import adapt, learn_more
from factlearn.classification.results import load_result
from factlearn.errors import DatasetError, RunError
from factlearn.learning.runs import load_tensors
from tests.classification.test_training import learn


@pytest.fixture
def first(shapes_config, tmp_path):
    return learn(shapes_config, tmp_path / "first", stop_after=1)


def test_an_adapted_run_remembers_the_class_and_goes_on(first, shapes_config, tmp_path):
    adapted = adapt(first, ["round/red"], tmp_path / "adapted")
    before, after = (load_tensors(run.stage_folder(1) / "strategy.safetensors") for run in (first, adapted))
    assert before.keys() == after.keys()
    assert not torch.equal(before["omega.shared.0.weight"], after["omega.shared.0.weight"])
    assert torch.equal(before["theta_star.shared.0.weight"], after["theta_star.shared.0.weight"])
    assert adapted.config.strategy.importance == ("round/red",)
    result = load_result(learn_more(adapted))
    assert len(result.predictions) == 2
    assert first.finished_stages() == 1
    # Importance from the beginning and importance adapted after the first task are the same thing.
    whole = learn(shapes_config, tmp_path / "whole", {"name": "mas", "importance": ["round/red"]})
    one, other = (load_tensors(run.stage_folder(2) / "model.safetensors") for run in (whole, adapted))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_folder_of_images_needs_no_labels(first, shapes, tmp_path):
    adapted = adapt(first, shapes / "round" / "test", tmp_path / "adapted")
    omega = load_tensors(adapted.stage_folder(1) / "strategy.safetensors")
    assert not [name for name in omega if "heads" in name]


def test_what_cannot_be_adapted_says_why(first, shapes_config, tmp_path):
    with pytest.raises(RunError, match="not learned square"):
        adapt(first, ["square/red"], tmp_path / "a")
    with pytest.raises(DatasetError, match="did you mean"):
        adapt(first, ["round/rad"], tmp_path / "a")
    with pytest.raises(RunError, match="exists already"):
        adapt(first, ["round/red"], first.folder)
    plain = learn(shapes_config, tmp_path / "si", "si", stop_after=1)
    with pytest.raises(RunError, match="cannot measure importance"):
        adapt(plain, ["round/red"], tmp_path / "a")
