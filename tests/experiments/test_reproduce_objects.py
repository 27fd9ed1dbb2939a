import pytest

from factlearn.experiments.classification_cells import Cell
from factlearn.experiments.paper import objects
from factlearn.experiments.paper.object_plots import accuracy_bars, drop_bars, memory_lines
from factlearn.experiments.paper.outcome import Outcome
from factlearn.experiments.paper.request import Request


def cell(method, first, second, diverged=False):
    """Two tasks: the first at 80 percent when just learned."""
    accuracy = [] if diverged else [[0.8, None], [first, second]]
    sizes = {"model_bytes": 1000, "training_bytes": 300, "stored_bytes": 200}
    forgetting = None if diverged else 0.8 - first
    return Cell(method, 1.0, ["birds", "cars"], accuracy, (first + second) / 2, 0.0, 0.5, forgetting, 0.0, 0.0, {},
                [sizes, sizes], 1.0, diverged)  # fmt: skip


def test_pairs_show_the_papers_drop_beside_ours():
    learned = {
        "mas": {"birds:cars": [cell("mas", 0.79, 0.6)], "cars:birds": [cell("mas", 0.77, 0.5)]},
        "finetune": {"birds:cars": [cell("finetune", 0.5, 0.7)], "cars:birds": [cell("finetune", 0.4, 0.7)]},
    }
    drops, second = objects.pair_tables(learned, "table-1", {"mas": "mas", "finetune": "finetune"})
    assert drops.cell("MAS", "birds → cars") == "0.4 | 1.0"
    assert drops.cell("FineTune", "average") == "9.6 | 35.0"
    assert drops.ordering("average") == "yes"
    assert second.cell("FineTune", "cars → birds") == "52.8 | 70.0"
    assert objects.average_drops(learned) == pytest.approx({"mas": 2.0, "finetune": 35.0})


def test_a_diverged_sequence_counts_as_all_lost():
    learned = {"ewc": {"birds:cars": [cell("ewc", 0.0, 0.0, diverged=True)]}}
    assert objects.average_drops(learned) == {"ewc": 100.0}


def test_eight_tasks_compare_with_table_6(monkeypatch):
    made = {"mas": [cell("mas", 0.7, 0.6)], "si": [cell("si", 0.6, 0.6)], "finetune": [cell("finetune", 0.2, 0.9)]}
    monkeypatch.setattr(objects, "cells", lambda request, name, sets, seeds: made[sets[0].partition("=")[2]])
    outcome = Outcome("objects-eight-tasks", "Table 6", "t", "s")
    objects.eight_tasks(Request(methods=("finetune", "si", "mas")), outcome)
    table = outcome.tables[0]
    assert table.cell("MAS", "average") == "52.7 | 65.0"
    assert table.ordering("average") == "yes"
    assert [statement.holds for statement in outcome.statements] == [True, True]
    assert [plot.name for plot in outcome.plots] == ["accuracy", "drop"]


def test_plots_hold_a_number_for_each_method_and_task():
    learned = {"mas": [cell("mas", 0.7, 0.6)], "si": [cell("si", 0.6, 0.6)]}
    assert [row[:2] for row in drop_bars(learned).rows][:2] == [["MAS", "birds"], ["MAS", "cars"]]
    assert accuracy_bars(learned).rows[0][2] == pytest.approx(70)
    assert len(memory_lines(learned).rows) == 2 * 2 * 2


@pytest.mark.parametrize("name", ["emoji8", "pairs", "one_class"])
def test_every_object_experiment_has_a_small_config_that_needs_no_data_of_the_users(name):
    assert objects.load(Request(scale="small"), name).data.source == "emoji8"
