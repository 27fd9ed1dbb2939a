from typer.testing import CliRunner

from factlearn.cli import app
from factlearn.experiments.paper.registry import run_experiment


def test_the_results_page_holds_every_outcome_with_its_verdicts(ask, place, tmp_path):
    outcome, _ = run_experiment("facts-four-tasks", ask(methods=("finetune", "mas", "joint")))
    out = tmp_path / "results.md"
    done = CliRunner().invoke(app, ["results", str(place), "--out", str(out)])
    assert done.exit_code == 0
    text = out.read_text()
    assert f"## facts-four-tasks: {outcome.setting}" in text
    assert outcome.tables[0].cell("MAS", "all").replace(" | ", " / ") in text
    assert all(statement.detail in text for statement in outcome.statements)
    assert (tmp_path / "results" / "facts-four-tasks-small-curves-random.svg").is_file()


def test_a_results_page_needs_outcomes(tmp_path):
    refused = CliRunner().invoke(app, ["results", str(tmp_path), "--out", str(tmp_path / "results.md")])
    assert "holds no outcomes" in str(refused.exception)
