import json
import shutil
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from factlearn.cli import app
from factlearn.errors import ConfigError, FactlearnError
from factlearn.experiments.paper.outcome import Entry, Outcome, PaperTable, entry
from factlearn.experiments.paper.paper import paper
from factlearn.experiments.paper.registry import load_experiments, run_experiment
from factlearn.experiments.paper.request import Request
from factlearn.experiments.paper.subsets import halves, links
from factlearn.facts import Fact

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Cells that the tests of this file share."""
    return tmp_path_factory.mktemp("cells")


@pytest.fixture
def ask(sports_data, place):
    def make(**changes):
        return Request(seeds=changes.pop("seeds", 1), config_path=sports_data, out=place, **changes)

    return make


def test_the_papers_numbers_agree_with_its_own_text():
    splits = paper("table-4", "splits")
    assert {method: len(rows) for method, rows in splits.items()} == {"finetune": 3, "si": 3, "mas": 3}
    assert mean(row[-1] for row in splits["mas"]) == pytest.approx(0.28)
    accuracy, average = paper("table-6", "accuracy"), paper("table-6", "average")
    for method in ("lwf", "imm", "si", "mas"):
        assert mean(accuracy[method]) == pytest.approx(average[method], abs=0.05)
    for table in ("table-1", "table-2"):
        rows, drops = paper(table, "accuracy"), paper(table, "drop")
        assert rows.keys() == drops.keys()
        assert all(len(row) == 4 for row in (*rows.values(), *drops.values()))
    assert paper("table-2", "accuracy")["mas train"] == paper("table-1", "accuracy")["mas"]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=6))
def test_the_ordering_is_the_same_exactly_if_no_pair_is_swapped(values):
    table = PaperTable("t", [Entry(f"r{i}", "c", float(a), float(b)) for i, (a, b) in enumerate(values)])
    swapped = any(a > c and b < d for a, b in values for c, d in values)
    assert table.ordering("c").startswith("no") == swapped


def test_a_cell_shows_paper_and_here():
    table = PaperTable("t", [entry("MAS", "all", 0.28, [0.5, 0.6]), Entry("Joint", "all", None, 0.7)], digits=2)
    assert table.cell("MAS", "all") == "0.28 | 0.55 ± 0.07"
    assert table.cell("Joint", "all") == "- | 0.70"
    assert table.ordering("all") == "-"


def test_four_tasks_learn_each_cell_once_and_keep_the_outcome(ask):
    methods = ("finetune", "mas", "joint")
    outcome, folder = run_experiment("facts-four-tasks", ask(methods=methods))
    assert outcome.runs == 6
    assert [table.rows for table in outcome.tables] == [["FineTune", "MAS", "Joint"]] * 2
    shares = {e.row: e.here for e in outcome.tables[0].entries if e.column == "gap closed"}
    assert shares["FineTune"] == 0
    assert shares["Joint"] == pytest.approx(1)
    kept = Outcome.load(folder)
    assert kept.tables == outcome.tables
    assert kept.statements == outcome.statements
    stamps = {p: p.stat().st_mtime_ns for p in ask().out.rglob("stage.json")}
    again, _ = run_experiment("facts-four-tasks", ask(methods=methods))
    assert again.tables == outcome.tables
    assert {p: p.stat().st_mtime_ns for p in ask().out.rglob("stage.json")} == stamps


def test_an_interrupted_sweep_goes_on_with_what_is_missing(ask):
    methods = ("finetune", "joint")
    first, _ = run_experiment("facts-four-tasks", ask(methods=methods))
    lost = ask().out / "four-tasks/small-random/finetune-0"
    shutil.rmtree(lost)
    again, _ = run_experiment("facts-four-tasks", ask(methods=methods))
    assert lost.is_dir()
    assert again.tables == first.tables


def test_sports_share_cells_with_the_four_tasks_and_measure_adaptation(ask):
    outcome, _ = run_experiment("facts-sports", ask(methods=("finetune", "mas")))
    assert outcome.tables[0].rows == [
        "MAS, adapted to sports, λ 12, floor 3",
        "MAS, adapted to sports",
        "MAS, λ 12, floor 3",
        "FineTune",
        "MAS",
    ]
    assert len(outcome.notes[0].split(">,")) == 4
    assert (ask().out / "four-tasks/small-agglomerative/mas-sports-0").is_dir()
    moved, folder = run_experiment("facts-projection", ask())
    assert {"projection.svg", "projection.csv", "outcome.json"} <= {path.name for path in folder.iterdir()}
    assert all(e.here >= 0 for e in moved.tables[0].entries)


def test_halves_measure_importance_on_their_own_test_images(ask):
    outcome, _ = run_experiment("facts-subsets", ask(methods=("mas",)))
    assert outcome.tables[0].rows == ["MAS, importance on T11", "MAS, importance on T12"]
    assert outcome.tables[0].columns == ["T11", "T12", "T1", "T2", "all"]
    correlated, folder = run_experiment("omega-correlation", ask())
    assert correlated.tables[0].rows == ["train against test", "T11 against T12"]
    assert len(list(folder.glob("*.svg"))) == 2
    spread, _ = run_experiment("omega-histogram", ask())
    assert len(spread.statements) == 2


@given(st.integers(2, 30), st.integers(0, 5))
def test_halves_split_all_facts_evenly(count, seed):
    facts = [Fact(f"thing{number}") for number in range(count)]
    one, other = halves(facts, seed)
    assert sorted([*one, *other]) == sorted(facts)
    assert 0 <= len(one) - len(other) <= 1
    assert halves(facts[::-1], seed) == (one, other)


def test_links_are_made_anew_only_if_the_images_changed(tmp_path):
    images = [tmp_path / f"{name}.png" for name in "ab"]
    for image in images:
        image.write_bytes(b"")
    folder = links(images, tmp_path / "links")
    before = folder.stat().st_ino
    assert links(images, tmp_path / "links").stat().st_ino == before
    assert len(list(links(images[:1], tmp_path / "links").iterdir())) == 1


@pytest.mark.slow
def test_side_by_side_gives_the_numbers_of_one_after_the_other(ask, place, tmp_path):
    one, _ = run_experiment("facts-four-tasks", ask(methods=("finetune", "joint")))
    request = ask(methods=("finetune", "joint"), jobs=2)
    request.out = tmp_path
    other, _ = run_experiment("facts-four-tasks", request)
    assert [e.here for t in other.tables for e in t.entries] == pytest.approx(
        [e.here for t in one.tables for e in t.entries], abs=1e-6
    )


@pytest.mark.slow
def test_memory_is_least_for_finetune(ask, monkeypatch):
    from factlearn.experiments import digits

    monkeypatch.setattr(digits, "EPOCHS", 1)
    outcome, _ = run_experiment("memory", ask())
    training = {e.row: e.here for e in outcome.tables[0].entries if e.column.startswith("while")}
    assert training["FineTune"] == 0
    assert training["SI"] > training["MAS"] > 0


def test_the_list_shows_every_experiment_and_the_time_of_those_that_were_run(sports_data, place):
    shown = CliRunner().invoke(
        app, ["reproduce", "list", "--config", str(sports_data), "--out", str(place)], env={"COLUMNS": "200"}
    )
    assert shown.exit_code == 0
    assert all(name in shown.stdout for name in load_experiments())


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


def test_a_damaged_outcome_says_what_to_do(tmp_path):
    (tmp_path / "outcome.json").write_text(json.dumps({"name": "x"}))
    with pytest.raises(FactlearnError, match="run `factlearn reproduce` again"):
        Outcome.load(tmp_path)


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
