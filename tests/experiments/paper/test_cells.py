import re
from pathlib import Path

import pytest
import yaml

import factlearn
from factlearn.config import scales_of, shipped
from factlearn.experiments.paper.cells import Cell, learn_cells
from factlearn.experiments.paper.registry import run_experiment
from factlearn.learning.config import load_config, parse_config
from factlearn.lifelong.registry import METHODS


@pytest.fixture
def small(digits_config, cache):
    """`small(seed=1, training=...)` is a config of classes that is learned in a second."""

    def make(rate=0.05, **changes):
        training = {**digits_config["training"], "epochs": 1, "learning_rate": rate}
        return parse_config({**digits_config, "training": training, **changes}, "test")

    return make


def test_there_is_one_kind_of_cell():
    sources = Path(factlearn.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if re.search(r"^class Cell\b", path.read_text(), re.M)] == ["cells.py"]


def test_a_finished_cell_is_not_learned_again(small, tmp_path):
    cells = [Cell.named(tmp_path, small(seed=seed)) for seed in (0, 1, 0)]
    assert cells[0].folder == cells[2].folder != cells[1].folder
    assert not cells[0].finished()
    first = learn_cells(cells)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    again = learn_cells(cells)
    assert [each.matrix() for each in again] == [each.matrix() for each in first]
    assert first[0].matrix() == first[2].matrix() != first[1].matrix()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == stamps


def test_a_cell_keeps_what_experiments_read_and_drops_the_weights(small, tmp_path):
    learn_cells([Cell(tmp_path / "cell", small())])
    kept = {str(path.relative_to(tmp_path / "cell")) for path in (tmp_path / "cell").rglob("*.safetensors")}
    assert kept == {"stages/1/strategy.safetensors", *(f"stages/{stage}/outputs.safetensors" for stage in range(1, 6))}


def test_a_folder_with_another_config_is_learned_again(small, tmp_path):
    learn_cells([Cell(tmp_path / "cell", small(seed=0))])
    other = Cell(tmp_path / "cell", small(seed=1))
    assert not other.finished()
    assert learn_cells([other])[0].run.config.seed == 1


def test_a_diverged_cell_is_an_outcome_and_not_an_error(small, tmp_path):
    cell = Cell(tmp_path / "cell", small(rate=1e12))
    assert learn_cells([cell]) == [None]
    assert cell.finished()
    assert cell.diverged()
    stamp = (cell.folder / "diverged.json").stat().st_mtime_ns
    assert learn_cells([cell]) == [None]
    assert (cell.folder / "diverged.json").stat().st_mtime_ns == stamp
    calmer = Cell(cell.folder, small())
    assert learn_cells([calmer])[0] is not None
    assert not calmer.diverged()


@pytest.mark.slow
def test_side_by_side_gives_the_numbers_of_one_after_the_other(ask, tmp_path):
    one, _ = run_experiment("facts-four-tasks", ask(methods=("finetune", "joint")))
    request = ask(methods=("finetune", "joint"), jobs=2)
    request.out = tmp_path
    other, _ = run_experiment("facts-four-tasks", request)
    assert [e.here for t in other.tables for e in t.entries] == pytest.approx(
        [e.here for t in one.tables for e in t.entries], abs=1e-6
    )


@pytest.mark.parametrize("name", ["emoji8", "eight", "pairs", "one_class", "permuted", "split"])
def test_the_projects_configs_are_valid_for_every_method_and_scale(name):
    path = shipped(f"classify/{name}.yaml")
    for scale in ("full", *scales_of(path)):
        for method in (method for method, about in METHODS.items() if "classes" in about.problems):
            config = load_config(path, [f"scale={scale}", f"strategy.name={method}"])
            assert config.strategy.name == method
    assert ("small" in scales_of(path)) == (name in ("eight", "pairs", "one_class"))


def test_permuted_digits_have_a_lambda_for_every_method_that_takes_one():
    raw = yaml.safe_load(shipped("classify/permuted.yaml").read_text())
    with_lambda = {
        name for name, about in METHODS.items() if about.config().strength is not None and "classes" in about.problems
    }
    assert raw["methods"].keys() == with_lambda
