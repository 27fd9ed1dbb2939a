import pytest

from factlearn.config import parse_config
from factlearn.experiments.four_tasks import METHODS, spread, sweep, sweep_table
from factlearn.runs import Run


def test_a_sweep_learns_each_cell_once_and_reuses_it(config, tmp_path, capsys):
    parsed = parse_config(config, "test")
    first = sweep(parsed, ["finetune", "joint"], [0, 1], tmp_path)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")}
    again = sweep(parsed, ["finetune", "joint"], [0, 1], tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")} == written
    assert [cell.map_all for cell in again] == [cell.map_all for cell in first]
    assert Run.open(tmp_path / "joint-1").config.seed == 1
    table = sweep_table(first, "two methods")
    assert [str(cell) for cell in table.columns[0].cells] == ["finetune", "joint"]
    assert list(table.columns[3].cells) == ["0%", "100%"]


def test_a_cell_made_with_another_config_is_learned_again(config, tmp_path):
    first = sweep(parse_config(config, "test"), ["finetune"], [0], tmp_path)
    config["training"] = {**config["training"], "epochs": 1}
    second = sweep(parse_config(config, "test"), ["finetune"], [0], tmp_path)
    assert second[0].result.run.config.training.epochs == 1
    assert first[0].map_all is not None


def test_spread_is_mean_and_deviation():
    assert spread([0.25, 0.75]) == "0.500 ± 0.354"
    assert spread([0.5]) == "0.500"
    assert spread([]) == "-"


@pytest.mark.parametrize("method", METHODS)
def test_every_compared_method_is_a_valid_config(config, method):
    assert parse_config({**config, "strategy": METHODS[method]}, "test").strategy.name == method
