import pytest

from factlearn.errors import FactIndexError
from factlearn.retrieval import FactIndex
from tests.retrieval.conftest import more_images


def test_the_fastest_way_to_search_that_reaches_the_recall_is_used(grown):
    expected = FactIndex.open(grown.path)
    trials = grown.optimize(kinds=("flat", "pq", "hnsw"), per_pattern=2)
    (chosen,) = (trial for trial in trials if trial.note == "chosen")
    measured = [trial for trial in trials if trial.milliseconds and trial.recall >= 0.95]
    assert chosen.milliseconds == min(trial.milliseconds for trial in measured)
    assert {trial.note for trial in trials if trial.kind == "pq"} == {"not built: too few images to learn codes from"}
    assert FactIndex.open(grown.path).store.describe()["search"]["kind"] == chosen.kind
    assert sorted(grown.ids) == sorted(expected.ids)
    grown.add(**more_images(3, prefix="last"), model="m2")
    assert grown.verify() == []


def test_what_cannot_be_reached_is_refused_and_leaves_the_exact_search(grown):
    with pytest.raises(FactIndexError, match=r"None of hnsw reaches recall 0\.95 within the memory limit"):
        grown.optimize(kinds=("hnsw",), memory=1)
    with pytest.raises(FactIndexError, match="no kind 'lsh'; the kinds are flat, pq, ivf, hnsw"):
        grown.optimize(kinds=("flat", "lsh"))
    assert FactIndex.open(grown.path).verify() == []
