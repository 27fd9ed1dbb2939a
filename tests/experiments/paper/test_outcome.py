import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factlearn.errors import FactlearnError
from factlearn.experiments.paper.outcome import Entry, Outcome, PaperTable, entry


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


def test_a_damaged_outcome_says_what_to_do(tmp_path):
    (tmp_path / "outcome.json").write_text(json.dumps({"name": "x"}))
    with pytest.raises(FactlearnError, match="run `factlearn reproduce` again"):
        Outcome.load(tmp_path)
