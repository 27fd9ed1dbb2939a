"""What a run directory gives back of its results."""

import json

import numpy as np
import pytest
import torch

from factlearn.errors import RunError
from factlearn.evaluation.classes import ClassEvaluation
from factlearn.evaluation.facts import FactEvaluation
from factlearn.learning.classes import test_predictions as predictions_of
from factlearn.learning.facts import test_vectors as vectors_of
from factlearn.learning.results import load_model, load_result
from factlearn.learning.storage import read_sealed, write_sealed
from tests.learning.helpers import learn


def test_results_of_facts_agree_with_what_was_recorded(config, tmp_path):
    run = learn(config, tmp_path / "run")
    result = run.result()
    assert isinstance(result.final, FactEvaluation)
    assert result.learned == [["task 1"], ["task 1", "task 2"]]
    assert result.measure == "MAP"
    exact = result.matrix("exact")
    assert exact == result.matrix()
    assert exact[0][1] is None
    assert 0 <= result.final.map_all <= 1
    assert set(result.final.exact.subsets) == {"sports"}
    assert result.forgetting("exact").per_task[0] == pytest.approx(exact[0][0] - exact[1][0])
    assert result.course("task 1") == [row[0] for row in exact]
    assert result.course(None) == result.whole() == [stage.map_all for stage in result.evaluations]
    assert result.course("sports") == [stage.exact.subsets["sports"].map for stage in result.evaluations]
    assert result.just_learned() == pytest.approx((exact[0][0] + exact[1][1]) / 2)
    assert result.forward_transfer() is None
    assert run.stage(2)["evaluation"]["map_all"] == result.final.map_all


def test_measures_of_classes_agree_with_their_definitions(digits_config, tmp_path):
    run = learn(digits_config, tmp_path / "run", strategy={"name": "finetune"})
    result = run.result()
    assert isinstance(result.final, ClassEvaluation)
    assert result.measure == "accuracy"
    task = run.data.tasks[1]
    with torch.inference_mode():
        scores = run.model(3)(torch.from_numpy(task.test.values))
    labels = torch.from_numpy(task.test.labels)
    assert len(scores) == 3
    assert result.matrix("told")[2][1] == pytest.approx(float((scores[1].argmax(1) == labels).float().mean()))
    chances = torch.cat([each.softmax(1) for each in scores], dim=1)
    found = chances.argmax(1) == labels + 2
    assert result.matrix("free")[2][1] == pytest.approx(float(found.float().mean()), abs=1e-6)
    matrix = result.matrix()
    lost = [max(matrix[i][j] for i in range(j, 4)) - matrix[4][j] for j in range(4)]
    assert result.forgetting().average == pytest.approx(sum(lost) / 4)
    assert result.just_learned() == pytest.approx(sum(matrix[i][i] for i in range(5)) / 5)
    assert result.whole() == pytest.approx([sum(row[: i + 1]) / (i + 1) for i, row in enumerate(matrix)])
    before = [run.stage(n)["nearest_mean"] for n in range(1, 6)]
    names = result.tasks
    transfer = [before[n][names[n]] - before[0][names[n]] for n in range(1, 5)]
    assert result.forward_transfer() == pytest.approx(sum(transfer) / 4)
    (last,) = predictions_of(run, 5)[4:]
    assert last.accuracy(run.data.tasks[4].test.labels) == matrix[4][4]


@pytest.mark.parametrize("kind", ["config", "shapes_config"])
def test_the_stored_evaluation_is_what_a_fresh_look_at_the_images_gives(kind, request, tmp_path):
    run = learn(request.getfixturevalue(kind), tmp_path / "run")
    stored, fresh = load_result(tmp_path / "run"), load_result(run, fresh=True)
    assert stored.evaluations == fresh.evaluations
    assert stored.to_json() == fresh.to_json()


@pytest.mark.parametrize("kind", ["config", "digits_config"])
def test_stored_results_are_read_without_the_network_or_the_images(kind, request, tmp_path, monkeypatch):
    run = learn(request.getfixturevalue(kind), tmp_path / "run", training__epochs=1)
    expected = run.result().to_json()
    for path in run.folder.rglob("*.safetensors"):
        path.unlink()
    monkeypatch.setattr("factlearn.data.registry.open_source", None)
    assert load_result(run.folder).to_json() == expected


@pytest.mark.parametrize("kind", ["config", "digits_config"])
def test_results_are_plain_json(kind, request, tmp_path):
    result = learn(request.getfixturevalue(kind), tmp_path / "run", training__epochs=1).result()
    values = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert values["tasks"] == result.tasks
    assert set(values["matrix"]) == set(values["forgetting"]) == set(result.final.rules)
    assert len(values["stages"]) == len(values["seconds"]) == len(values["memory"]) == len(result.tasks)
    assert type(result.final).from_json(values["stages"][-1]) == result.final


@pytest.mark.parametrize("kind", ["config", "digits_config"])
def test_joint_has_one_stage_with_every_task_and_no_forgetting(kind, request, tmp_path):
    result = learn(request.getfixturevalue(kind), tmp_path / "run", strategy={"name": "joint"}).result()
    assert result.learned == [result.tasks]
    assert result.at_once
    assert result.moments == ["all at once"]
    assert result.forgetting() is None
    assert result.just_learned() is None
    assert None not in result.matrix()[0]


def test_every_stage_gives_its_network_and_outputs_back(config, tmp_path):
    run = learn(config, tmp_path / "run")
    assert [load_model(run, n).fingerprint() for n in (1, 2)] == [run.stage(n)["model_fingerprint"] for n in (1, 2)]
    assert load_model(run).fingerprint() == load_model(run, 2).fingerprint()
    assert not load_model(run).training
    assert not np.array_equal(vectors_of(run, 1), vectors_of(run, 2))


def test_what_is_not_finished_or_damaged_is_one_sentence(digits_config, tmp_path):
    run = learn(digits_config, tmp_path / "run", training__epochs=1, stop_after=1)
    with pytest.raises(RunError, match="has 1 finished stages; there is no stage 2"):
        run.model(2)
    with pytest.raises(RunError, match="holds no run"):
        load_result(tmp_path)
    record = run.stage_folder(1) / "stage.json"
    text = record.read_text()
    write_sealed(record, json.loads(json.dumps(read_sealed(record)).replace('"accuracy"', '"inaccuracy"')))
    with pytest.raises(RunError, match=r"damaged .*--fresh"):
        run.result()
    assert 0 <= run.result(fresh=True).final.average <= 1
    record.write_text("{")
    with pytest.raises(RunError, match="damaged"):
        run.result()
    record.write_text(text)
    (run.stage_folder(1) / "model.safetensors").write_bytes(b"rubbish")
    with pytest.raises(RunError, match="damaged"):
        run.model()
    record.unlink()
    with pytest.raises(RunError, match="no finished stage yet"):
        run.result()
