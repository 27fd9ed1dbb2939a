import shutil
from statistics import mean

import pytest

from factlearn.experiments.paper.cells import Cell
from factlearn.experiments.paper.facts import by_method
from factlearn.experiments.paper.outcome import Outcome
from factlearn.experiments.paper.paper import paper
from factlearn.experiments.paper.registry import run_experiment
from factlearn.learning.protection import protection_of
from factlearn.learning.runs import Run
from factlearn.lifelong.config import PROTECT_FLOOR, PROTECT_WEIGHT


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


def test_an_interrupted_sweep_resumes_with_what_is_missing(ask):
    methods = ("finetune", "joint")
    first, _ = run_experiment("facts-four-tasks", ask(methods=methods))
    lost = ask().out / "four-tasks/small-random/finetune-0"
    shutil.rmtree(lost)
    again, _ = run_experiment("facts-four-tasks", ask(methods=methods))
    assert lost.is_dir()
    assert again.tables == first.tables


def test_sports_share_cells_with_the_four_tasks_and_measure_adaptation(ask):
    outcome, _ = run_experiment("facts-sports", ask(methods=("finetune", "mas")))
    own, among_all, cost = outcome.tables
    firm = f"MAS, floor {PROTECT_WEIGHT + PROTECT_FLOOR:g}"
    adapted = "MAS, adapted to sports"
    assert own.rows == [adapted, "MAS, importance of sports alone", firm, "FineTune", "MAS"]
    assert own.rows == among_all.rows == cost.rows
    assert len(outcome.notes[0].split(">,")) == 4
    cell = Run.open(ask().out / "four-tasks/small-agglomerative/mas-sports-0")
    protected = protection_of(cell).fate("protected")
    last = own.columns[-1]
    ends = [next(e.here for e in t.entries if (e.row, e.column) == (adapted, last)) for t in (own, among_all)]
    assert ends == pytest.approx(list(protected.now))
    assert ends[0] >= ends[1]
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


def test_a_run_that_diverged_is_left_out_of_its_own_method_alone(ask, monkeypatch):
    request = ask(seeds=2)
    made = by_method(request, "random", ["finetune", "mas"])
    monkeypatch.setattr(Cell, "diverged", lambda cell: cell.folder.name == "finetune-0")
    again = by_method(request, "random", ["finetune", "mas"])
    assert [result.run.folder.name for result in again["finetune"]] == ["finetune-1"]
    assert [r.run.folder for r in again["mas"]] == [r.run.folder for r in made["mas"]]
    monkeypatch.setattr(Cell, "diverged", lambda cell: cell.folder.name.startswith("finetune"))
    assert by_method(request, "random", ["finetune", "mas"]).keys() == {"mas"}
    assert request.diverged == ["finetune-0", "finetune-0", "finetune-1"]


def test_index_policies_show_one_column_per_policy(ask):
    outcome, _ = run_experiment("index-policies", ask())
    assert [table.columns for table in outcome.tables] == [["re-embedded", "kept", "guided", "embedded again"]] * 4
