"""What became of each fact or class, and which of them a report shows."""

import pytest

from factlearn.experiments.changes import (
    Change,
    changes_of,
    changes_table,
    class_accuracies,
    lost_by_all,
    most_forgotten,
    telling_facts,
)


def changes(**lost):
    """`changes(MAS={"a": 0.2})`: every fact was learned with 1.0 and lost that much."""
    return {
        method: [Change(fact, "first", 1.0, 1.0 - value) for fact, value in facts.items()]
        for method, facts in lost.items()
    }


def test_telling_facts_are_lost_by_one_method_and_kept_by_another():
    found = changes(FineTune={"kept": 0.0, "told": 0.9, "gone": 0.95}, MAS={"kept": 0.0, "told": 0.1, "gone": 0.9})
    assert telling_facts(found, 2, {"kept": 9, "told": 9, "gone": 9}) == ["told", "gone"]
    assert telling_facts(found, 1, {"kept": 9, "told": 0, "gone": 9}) == ["gone"]


def test_a_fact_that_even_the_best_method_lost_is_shown_if_there_is_one():
    found = changes(FineTune={"a": 1.0, "b": 0.8, "c": 0.9}, MAS={"a": 0.1, "b": 0.7, "c": 0.6})
    assert lost_by_all(found) == ["b"]
    assert lost_by_all(changes(FineTune={"a": 1.0}, MAS={"a": 0.2})) == []
    assert lost_by_all(changes(FineTune={"a": 1.0})) == []


def test_the_table_has_every_fact_once_most_forgotten_first():
    found = changes(FineTune={"a": 0.2, "b": 0.8}, MAS={"a": 0.9})
    assert most_forgotten(found, 5) == ["a", "b"]
    rows = changes_table(found)
    assert [row["fact"] for row in rows] == ["a", "b"]
    assert rows[1]["cells"][1] is None


def test_changes_of_facts_are_those_of_the_evaluations(learned):
    result = learned(name="finetune")
    then, now = (stage.exact.whole.average_precision for stage in result.evaluations)
    found = changes_of(result)
    assert {change.name for change in found} == {str(fact) for fact in result.run.tasks().tasks[0].facts}
    assert all(change.then == then[change.name] and change.now == now[change.name] for change in found)
    assert [change.lost for change in found] == sorted((change.lost for change in found), reverse=True)
    assert changes_of(learned(name="joint")) == []


def test_changes_of_classes_agree_with_the_accuracy_of_their_tasks(learned_classes):
    result = learned_classes(name="finetune")
    found = changes_of(result)
    assert {change.task for change in found} == set(result.tasks[:-1])
    first = result.run.data.tasks[0]
    shares = [(first.test.labels == label).mean() for label in range(len(first.classes))]
    end = class_accuracies(result, len(result.learned))
    mine = [end[f"{name} ({first.name})"] for name in first.classes]
    assert sum(a * b for a, b in zip(shares, mine, strict=True)) == pytest.approx(result.matrix()[-1][0])
    assert changes_of(learned_classes(name="joint")) == []
