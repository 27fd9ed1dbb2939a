import pytest
import torch

from factlearn.classification.data import open_sequence
from factlearn.classification.results import load_model, load_result
from tests.classification.test_training import learn


def test_measures_agree_with_their_definitions(digits_config, tmp_path):
    run = learn(digits_config, tmp_path / "run", "finetune")
    result = load_result(run)
    sequence = open_sequence(run.config.data, run.config.seed)
    model = load_model(run, 3)
    with torch.inference_mode():
        scores = model(torch.from_numpy(sequence.tasks[1].test.values))
    labels = torch.from_numpy(sequence.tasks[1].test.labels)
    assert len(scores) == 3
    assert result.accuracy[2][1] == pytest.approx(float((scores[1].argmax(1) == labels).float().mean()))
    chances = torch.cat([each.softmax(1) for each in scores], dim=1)
    found = chances.argmax(1) == labels + 2
    assert result.task_free[2][1] == pytest.approx(float(found.float().mean()), abs=1e-6)
    matrix = result.accuracy
    lost = [max(matrix[i][j] for i in range(j, 4)) - matrix[4][j] for j in range(4)]
    assert result.forgetting.average == pytest.approx(sum(lost) / 4)
    assert result.learned == pytest.approx(sum(matrix[i][i] for i in range(5)) / 5)
    before = [run.stage(n)["nearest_mean"] for n in range(1, 6)]
    names = result.tasks
    transfer = [before[n][names[n]] - before[0][names[n]] for n in range(1, 5)]
    assert result.forward_transfer == pytest.approx(sum(transfer) / 4)


def test_fresh_predictions_are_those_kept(shapes_config, tmp_path):
    run = learn(shapes_config, tmp_path / "run")
    assert load_result(run).accuracy == load_result(run, fresh=True).accuracy
    assert load_result(run).task_free == load_result(run, fresh=True).task_free
