"""Which facts a report shows: those that tell methods apart, and one that none kept."""

from factlearn.experiments.naming import EXPLAINED, TITLES
from factlearn.experiments.per_fact import FactChange, changes_table, lost_by_all, most_forgotten, telling_facts
from factlearn.lifelong.config import CONFIGS


def changes(**lost):
    """`changes(MAS={"a": 0.2})`: every fact was learned with 1.0 and lost that much."""
    return {
        method: [FactChange(fact, "first", 1.0, 1.0 - value) for fact, value in facts.items()]
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


def test_every_method_has_a_name_and_an_explanation():
    assert TITLES.keys() == EXPLAINED.keys() == CONFIGS.keys()
