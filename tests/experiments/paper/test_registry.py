import json

import pytest
from typer.testing import CliRunner

from factlearn.cli import app
from factlearn.errors import ConfigError
from factlearn.experiments.paper.outcome import Outcome, PaperTable, entry
from factlearn.experiments.paper.registry import EXPERIMENTS, experiment, run_experiment
from factlearn.experiments.paper.request import Request


@pytest.fixture
def outside():
    """An experiment that a program of the user's registers."""

    @experiment("two-seeds", "ours", "How much two seeds differ", data=False)
    def two_seeds(request: Request, outcome: Outcome) -> None:
        rows = {"EWC": ["strategy.name=ewc"]}
        learned = request.learn_objects("permuted", rows, request.seeds)["EWC"]
        outcome.tables.append(PaperTable("Accuracy", [entry("EWC", "end", None, [r.final.average for r in learned])]))

    yield "two-seeds"
    EXPERIMENTS.unregister("two-seeds")


def test_an_experiment_from_outside_runs_by_name_and_is_listed(outside, ask_classes, tmp_path):
    outcome, folder = run_experiment(outside, ask_classes(seeds=2, out=tmp_path))
    assert outcome.runs == 2
    assert Outcome.load(folder).tables == outcome.tables
    listed = CliRunner().invoke(app, ["reproduce", "list", "--out", str(tmp_path)], env={"COLUMNS": "200"})
    (line,) = [line for line in listed.stdout.splitlines() if outside in line]
    assert "How much two seeds differ" in line
    assert "not run yet" not in line
    shown = json.loads(CliRunner().invoke(app, ["list", "experiments", "--json"]).stdout)
    assert shown[outside] == {"title": "How much two seeds differ", "summary": "ours"}


def test_the_list_shows_every_experiment_and_the_time_of_those_that_were_run(sports_data, place):
    shown = CliRunner().invoke(
        app, ["reproduce", "list", "--config", str(sports_data), "--out", str(place)], env={"COLUMNS": "200"}
    )
    assert shown.exit_code == 0
    assert all(name in shown.stdout for name in EXPERIMENTS)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["facts-four-task"], "did you mean facts-four-tasks"),
        (["facts-four-tasks", "--scale", "huge"], "no scale 'huge'"),
        (["facts-four-tasks", "--data", "nothing.csv"], "neither emoji nor a manifest"),
        (["facts-four-tasks", "--methods", "mass"], "no method 'mass'"),
    ],
)
def test_bad_requests_get_one_sentence(arguments, sentence, tmp_path):
    refused = CliRunner().invoke(app, ["reproduce", *arguments, "--out", str(tmp_path)])
    assert isinstance(refused.exception, ConfigError)
    assert sentence in str(refused.exception)
