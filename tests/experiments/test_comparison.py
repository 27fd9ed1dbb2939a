import itertools
import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from factlearn.cli import app
from factlearn.errors import RunError
from factlearn.experiments.comparison import Spread, gap_closed, paired_tests, randomisation_p, score_methods
from factlearn.experiments.naming import explained, group_runs, load_runs
from factlearn.learning.config import parse_config
from factlearn.learning.runs import Run
from factlearn.learning.training import train
from factlearn.lifelong.registry import METHODS, title_of


@pytest.fixture
def folders(learned):
    """FineTune and MAS over two seeds, Joint over one."""
    cells = (("finetune", 3), ("finetune", 1), ("mas", 3), ("mas", 1), ("joint", 3))
    return [learned(name=name, seed=seed).run.folder for name, seed in cells]


@given(st.lists(st.integers(-8, 8), min_size=1, max_size=9))
def test_p_is_the_share_of_sign_patterns_at_least_as_extreme(values):
    signs = itertools.product((-1, 1), repeat=len(values))
    sums = np.array([abs(np.dot(pattern, values)) for pattern in signs])
    assert randomisation_p(np.array(values) / 8) == (sums >= abs(sum(values))).mean()


def test_p_of_many_pairs_is_small_for_a_clear_difference_and_large_for_none():
    noise = np.random.default_rng(1).normal(size=200)
    assert randomisation_p(noise + 1) < 0.001
    assert randomisation_p(np.concatenate([noise, -noise])) > 0.9


def test_methods_are_compared_over_the_seeds_they_share(folders):
    groups = group_runs(load_runs(folders))
    assert {method: len(group) for method, group in groups.items()} == {"FineTune": 2, "MAS": 2, "Joint": 1}
    scores = {score.method: score for score in score_methods(groups)}
    values = [result.final.map_all for result in groups["MAS"]]
    assert scores["MAS"].whole == Spread(np.mean(values), pytest.approx(np.std(values, ddof=1)))
    assert scores["Joint"].whole.deviation is None
    tests = {frozenset((test.one, test.other)): test for test in paired_tests(groups)}
    assert tests[frozenset(("FineTune", "MAS"))].seeds == 2
    assert tests[frozenset(("Joint", "MAS"))].seeds == 1
    assert all(test.difference >= 0 and 0 <= test.p <= 1 and test.compared == 6 for test in tests.values())
    assert all(test.low <= test.difference <= test.high for test in tests.values())


def test_the_difference_is_the_mean_over_facts(folders):
    groups = group_runs(load_runs([folders[0], folders[4]]))
    one, other = (group[0].final.exact.whole.average_precision for group in groups.values())
    expected = np.mean([one[fact] - other[fact] for fact in one])
    assert paired_tests(groups)[0].difference == pytest.approx(abs(expected))


def test_runs_of_one_method_are_told_apart_by_lambda_and_by_folder(learned, tmp_path):
    made = [learned(name="mas", **{"lambda": strength}).run.folder for strength in (1.0, 10.0)]
    copy = shutil.copytree(made[1], tmp_path / "copy")
    assert list(group_runs(load_runs([*made, copy]))) == ["MAS, λ = 1", "MAS, λ = 10", "MAS, λ = 10, copy"]


@pytest.mark.parametrize(
    ("importance", "title"),
    [("train", "MAS"), ("test", "MAS (test)"), ("both", "MAS (train + test)"), (["<tree>"], "MAS (adapted, only)")],
)
def test_a_title_says_where_importance_comes_from(config, importance, title):
    strategy = {"name": "mas", "importance": importance}
    assert title_of(parse_config({**config, "strategy": strategy}, "t").strategy) == title


def test_runs_of_different_data_do_not_compare(config, folders, manifest, tmp_path):
    rows = manifest.read_text().splitlines()
    fewer = manifest.with_name("fewer.csv")
    fewer.write_text("\n".join(rows[:-1]) + "\n")
    try:
        data = {"source": "manifest", "manifest": str(fewer)}
        other = train(parse_config({**config, "data": data}, "t"), tmp_path / "other").folder
        with pytest.raises(RunError, match="different data"):
            load_runs([folders[0], other])
    finally:
        fewer.unlink()


def test_the_gap_closed_is_a_share_of_the_way():
    assert gap_closed(0.3, 0.2, 0.6) == pytest.approx(0.25)
    assert gap_closed(0.3, 0.2, 0.2) is None


def test_the_command_prints_tables_and_json(folders):
    runner = CliRunner()
    shown = runner.invoke(app, ["compare", *map(str, folders)])
    assert shown.exit_code == 0
    assert "Joint" in shown.stdout
    values = json.loads(runner.invoke(app, ["compare", "--json", *map(str, folders)]).stdout)
    assert [entry["method"] for entry in values["methods"]] == ["FineTune", "MAS", "Joint"]
    assert len(values["paired"]) == 3


def test_runs_that_differ_in_more_than_the_seed_are_never_averaged(learned, tmp_path):
    made = []
    for place, floor in enumerate((0.0, 1.0, 3.0)):
        folder = shutil.copytree(learned(name="mas", floor=floor).run.folder, tmp_path / str(place) / "mas")
        made.append(Run.open(folder).result())
    groups = group_runs(made)
    assert [len(group) for group in groups.values()] == [1, 1, 1]


def test_class_runs_compare_by_accuracy_over_the_seeds_they_share(learned_classes):
    cells = (("finetune", 0), ("finetune", 1), ("mas", 0), ("mas", 1), ("joint", 0))
    results = [learned_classes(name=name, seed=seed) for name, seed in cells]
    folders = [result.run.folder for result in results]
    groups = group_runs(load_runs(folders))
    scores = {score.method: score for score in score_methods(groups)}
    assert scores["MAS"].whole.mean == pytest.approx(np.mean([result.final.average for result in results[2:4]]))
    assert scores["MAS"].second.mean == pytest.approx(np.mean([r.final.task_free_average for r in results[2:4]]))
    assert scores["Joint"].forgetting is None
    tests = {frozenset((test.one, test.other)): test for test in paired_tests(groups)}
    assert tests[frozenset(("FineTune", "MAS"))].seeds == 2
    assert all(test.compared == 10 for test in tests.values())
    shown = CliRunner().invoke(app, ["compare", *map(str, folders)], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.exception
    assert "average accuracy" in shown.stdout
    assert "Paired on classes: accuracy" in shown.stdout
    assert "MAP" not in shown.stdout


@pytest.mark.parametrize("command", ["compare", "report"])
def test_runs_of_facts_and_of_classes_do_not_mix(command, learned, learned_classes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = [str(learn(name="finetune").run.folder) for learn in (learned, learned_classes)]
    refused = CliRunner().invoke(app, [command, *folders])
    assert isinstance(refused.exception, RunError)
    assert "give runs of one kind" in str(refused.exception)
    assert not list(tmp_path.iterdir())


def test_a_method_is_explained_by_what_it_registered(learned):
    assert explained({"run": learned(name="mas")}) == {"MAS": METHODS["mas"].summary}
