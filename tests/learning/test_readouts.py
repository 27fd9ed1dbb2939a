"""A run in closed form holds both readouts."""

import pytest

from factlearn.errors import RunError
from factlearn.learning.readouts import read_out
from tests.learning.closed_form import assert_same_knowledge, classes_run, facts_run
from tests.learning.helpers import learn


@pytest.mark.parametrize(("before", "after"), [("distance", "posterior"), ("posterior", "distance")])
def test_the_other_readout_is_that_of_a_run_trained_with_it(config, tmp_path, before, after):
    run = facts_run(config, tmp_path, "run", [[0, 1], [2, 3]], readout=before)
    other = read_out(run, after, tmp_path / "other")
    trained = facts_run(config, tmp_path, "trained", [[0, 1], [2, 3]], readout=after)
    assert other.config.model.readout == after
    assert_same_knowledge(other, trained)
    assert other.result().final.headline() == trained.result().final.headline()
    back = read_out(other, before, tmp_path / "back")
    assert back.result().final.headline() == run.result().final.headline()


def test_what_has_no_other_readout_is_refused_and_nothing_is_left(config, shapes_config, tmp_path):
    run = facts_run(config, tmp_path, "run", [[0, 1]])
    classes = classes_run(shapes_config, tmp_path, "classes", [("a", "round", ("red", "green"))])
    for each, readout, words in (
        (run, "posterior", "already"), (run, "nearest", "no readout"), (classes, "posterior", "learned classes"),
    ):  # fmt: skip
        with pytest.raises(RunError, match=words):
            read_out(each, readout, tmp_path / "out")
    with pytest.raises(RunError, match="closed form"):
        read_out(learn(config, tmp_path / "mas"), "posterior", tmp_path / "out")
    assert not (tmp_path / "out").exists()
