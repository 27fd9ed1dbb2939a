"""The paper's regime beside the frozen one."""

import pytest
import yaml

from factlearn.config import shipped
from factlearn.errors import DatasetError
from factlearn.experiments.paper import learning
from factlearn.experiments.paper.learning import EVERY, clearly_above
from factlearn.experiments.paper.registry import run_experiment
from factlearn.experiments.paper.request import Request
from factlearn.learning.config import load_config
from factlearn.lifelong.registry import METHODS


def test_one_is_above_the_other_only_by_more_than_the_larger_deviation():
    assert clearly_above([0.5, 0.6], [0.1, 0.2]) is True
    assert clearly_above([0.1, 0.2], [0.5, 0.6]) is False
    assert clearly_above([0.5, 0.6], [0.5, 0.56]) is None
    assert clearly_above([0.5], [0.4]) is None


def test_every_method_but_the_costliest_is_compared():
    assert set(METHODS) - set(EVERY) == {"mas-vector"}


@pytest.mark.parametrize("name", ["emoji8", "facts", "posterior"])
@pytest.mark.parametrize("method", EVERY)
def test_nothing_is_frozen_unless_the_regime_says_so_and_every_method_has_its_own_lambda(name, method):
    path = shipped(f"learning/{name}.yaml")
    raw = yaml.safe_load(path.read_text())
    for scale, methods in (("full", raw["methods"]), ("frozen", raw["scales"]["frozen"]["methods"])):
        config = load_config(path, [f"scale={scale}", f"strategy.name={method}"])
        assert config.model.frozen == ("none" if scale == "full" else "conv5")
        assert (config.strategy.strength is None) == ("lambda" not in methods.get(method, {}))


@pytest.fixture
def small(shapes_config, place, cache, monkeypatch, tmp_path):
    """Requests for learning-objects on tiny folders of shapes, one epoch."""
    raw = {**shapes_config, "methods": {"mas": {"lambda": 1}}, "scales": {"frozen": {"training": {"epochs": 1}}}}
    folder = raw["data"]["root"]
    (tmp_path / "learning").mkdir()
    (tmp_path / "learning" / "objects.yaml").write_text(yaml.safe_dump(raw))
    monkeypatch.setattr(learning, "shipped", lambda name: tmp_path / name)
    return Request(data=str(folder), seeds=1, methods=("finetune", "mas", "drift", "joint"), out=place)


def test_both_regimes_stand_side_by_side(small):
    outcome, _ = run_experiment("learning-frozen", small)
    table = outcome.tables[0]
    assert table.rows == ["FineTune", "MAS", "Drift (closed form)", "Joint"]
    assert table.columns[0] == "learning"
    assert "frozen: gap closed, %" in table.columns
    assert table.cell("Joint", "frozen: gap closed, %") in ("100.0", "-")
    assert outcome.runs == 8
    assert any(statement.text == "learning: MAS above FineTune" for statement in outcome.statements)


def test_a_folder_without_tasks_gets_one_sentence(tmp_path, place):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="holds no folders"):
        run_experiment("learning-objects", Request(data=str(tmp_path / "empty"), out=place))
