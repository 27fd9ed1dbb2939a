from types import SimpleNamespace

import pytest

from factlearn.evaluation.classes import ClassEvaluation
from factlearn.evaluation.results import RunResult
from factlearn.experiments.paper import objects
from factlearn.experiments.paper.object_plots import accuracy_bars, drop_bars, memory_lines
from factlearn.experiments.paper.outcome import Outcome
from factlearn.experiments.paper.registry import run_experiment
from factlearn.experiments.paper.request import Request


def result(first, second):
    """Two tasks: the first at 80 percent when just learned."""
    tasks = ["birds", "cars"]
    accuracy = ({"birds": 0.8}, {"birds": first, "cars": second})
    sizes = {"model_bytes": 1000, "training_bytes": 300, "stored_bytes": 200}
    run = SimpleNamespace(stage=lambda stage: {"memory": sizes}, config=SimpleNamespace(seed=0))
    return RunResult(run, tasks, [tasks[:1], tasks], [ClassEvaluation(each, each) for each in accuracy])


def test_pairs_show_the_papers_drop_next_to_ours():
    learned = {
        "mas": {"birds:cars": [result(0.79, 0.6)], "cars:birds": [result(0.77, 0.5)]},
        "finetune": {"birds:cars": [result(0.5, 0.7)], "cars:birds": [result(0.4, 0.7)]},
    }
    drops, second = objects.pair_tables(learned, "table-1", {"mas": "mas", "finetune": "finetune"})
    assert drops.cell("MAS", "birds → cars") == "0.4 | 1.0"
    assert drops.cell("FineTune", "average") == "9.6 | 35.0"
    assert drops.ordering("average") == "yes"
    assert second.cell("FineTune", "cars → birds") == "52.8 | 70.0"
    assert objects.average_drops(learned) == pytest.approx({"mas": 2.0, "finetune": 35.0})


def test_a_diverged_pair_is_a_dash_and_its_row_has_no_average():
    learned = {"ewc": {"birds:cars": [], "cars:birds": [result(0.7, 0.6)]}}
    drops, _ = objects.pair_tables(learned, "table-1", {"ewc": "ewc"})
    assert drops.cell("EWC", "birds → cars").endswith("| -")
    assert drops.cell("EWC", "average").endswith("| -")
    assert objects.average_drops(learned) == {}


def test_eight_tasks_compare_with_table_6(monkeypatch):
    made = {"mas": [result(0.7, 0.6)], "si": [result(0.6, 0.6)], "finetune": [result(0.2, 0.9)]}
    monkeypatch.setattr(Request, "learn_objects", lambda request, name, rows, seeds: {row: made[row] for row in rows})
    outcome = Outcome("objects-eight-tasks", "Table 6", "t", "s")
    objects.eight_tasks(Request(methods=("finetune", "si", "mas")), outcome)
    table = outcome.tables[0]
    assert table.cell("MAS", "average") == "52.7 | 65.0"
    assert table.ordering("average") == "yes"
    assert [statement.holds for statement in outcome.statements] == [True, True]
    assert [plot.name for plot in outcome.plots] == ["accuracy", "drop"]


def test_plots_hold_a_number_for_each_method_and_task():
    learned = {"mas": [result(0.7, 0.6)], "si": [result(0.6, 0.6)]}
    assert [row[:2] for row in drop_bars(learned).rows][:2] == [["MAS", "birds"], ["MAS", "cars"]]
    assert accuracy_bars(learned).rows[0][2] == pytest.approx(70)
    assert len(memory_lines(learned).rows) == 2 * 2 * 2


@pytest.mark.parametrize("name", ["emoji8", "pairs", "one_class"])
def test_every_object_experiment_has_a_small_config_that_needs_no_data_of_the_users(name):
    assert Request(scale="small").object_config(name).data.source == "emoji8"


@pytest.fixture
def orders(monkeypatch):
    """Permuted digits in place of the emoji tasks."""
    monkeypatch.setattr(objects, "PAIRS", {"small": ("order 1:order 2", "order 2:order 1")})
    monkeypatch.setattr(objects, "CLASSES", {"small": ("order 1/3", "order 1/5")})


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("name", "rows", "runs"),
    [
        ("objects-two-tasks", ["FineTune", "LwF", "EBLL", "IMM (mode)", "EWC", "SI", "MAS"], 14),
        ("objects-train-test", ["MAS train", "MAS test", "MAS both", "l-MAS train", "l-MAS test", "l-MAS both"], 12),
        ("objects-eight-tasks", ["FineTune", "LwF", "IMM (mode)", "SI", "MAS", "Joint"], 6),
        ("objects-adaptation", ["order 1/3", "order 1/5"], 3),
    ],
)
def test_every_table_on_classes_comes_from_reproduce(name, rows, runs, ask_classes):
    outcome, folder = run_experiment(name, ask_classes())
    assert outcome.tables[0].rows == rows
    assert all(entry.here is not None for entry in outcome.tables[0].entries if entry.row != "Joint")
    assert outcome.statements
    assert outcome.runs == runs
    assert (folder / "outcome.json").is_file()


@pytest.mark.usefixtures("orders")
def test_an_experiment_with_a_diverged_run_says_so(ask_classes, tmp_path, monkeypatch):
    plain = Request.object_config

    def config(request, name, *overrides):
        explosive = "strategy.name=ewc" in overrides
        return plain(request, name, *overrides, *(["training.learning_rate=1e12"] if explosive else []))

    monkeypatch.setattr(Request, "object_config", config)
    outcome, _ = run_experiment("objects-two-tasks", ask_classes(methods=("finetune", "ewc", "mas"), out=tmp_path))
    assert outcome.tables[0].cell("EWC", "average").endswith("| -")
    assert outcome.tables[0].rows == ["FineTune", "EWC", "MAS"]
    assert "Diverged and left out: ewc-0-" in outcome.notes[-1]


def test_eight_tasks_of_joint_alone_have_no_drop(ask_classes):
    outcome, _ = run_experiment("objects-eight-tasks", ask_classes(methods=("joint",)))
    assert [plot.name for plot in outcome.plots] == ["accuracy"]
