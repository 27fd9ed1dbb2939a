import pytest

from factlearn.experiments.paper import costs
from factlearn.experiments.paper.registry import run_experiment
from factlearn.lifelong.registry import METHODS


def test_lambda_is_swept_and_drawn(ask_classes, monkeypatch):
    monkeypatch.setattr(costs, "STRENGTHS", (0.01, 1.0, 100.0))
    outcome, folder = run_experiment("lambda", ask_classes(seeds=2))
    assert outcome.tables[0].rows == ["λ = 0.01", "λ = 1", "λ = 100"]
    assert outcome.runs == 6
    assert len(outcome.statements) == 2
    assert len((folder / "lambda.csv").read_text().splitlines()) == 4


def test_the_norm_is_compared_with_the_vector_on_twice_the_seeds(ask_classes):
    outcome, _ = run_experiment("l2-vector", ask_classes())
    assert outcome.tables[0].rows == ["MAS", "MAS-vector"]
    assert outcome.runs == 4
    assert outcome.tables[0].entries[0].deviation is not None


def test_memory_is_none_for_finetune_and_measured_for_every_method(ask_classes):
    outcome, folder = run_experiment("memory", ask_classes())
    steps, held = outcome.tables
    training = {e.row: e.here for e in held.entries if e.column.startswith("while")}
    assert training.keys() == {m.title for m in METHODS.values() if "classes" in m.problems and m.name != "joint"}
    assert training["FineTune"] == 0
    assert training["SI"] > training["MAS"] > 0
    assert "Joint" not in steps.rows
    assert (folder / "memory.svg").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(("method", "least"), [("mas", 72), ("l-mas", 73), ("ewc", 72), ("si", 66), ("lwf", 57)])
def test_permuted_digits_reach_their_target(method, least, cache, tmp_path):
    from factlearn.experiments.paper.request import Request

    found = Request(out=tmp_path).learn_objects("permuted", {method: [f"strategy.name={method}"]}, 3)[method]
    assert sum(result.final.average for result in found) / 3 >= least / 100
