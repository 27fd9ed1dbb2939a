"""Before and after of what is protected: the same numbers as every other evaluation gives."""

import numpy as np
import pytest

from factlearn.data.tasks import Task
from factlearn.learning.adaptation import adapt
from factlearn.learning.classes import test_predictions as predictions_of
from factlearn.learning.facts import evaluate_facts
from factlearn.learning.facts import test_vectors as vectors_of
from factlearn.learning.protection import protection_of
from factlearn.learning.training import learn_more
from tests.learning.helpers import learn, parsed


@pytest.fixture
def adapted(config, tmp_path):
    """The first of two tasks of facts, adapted to two of its three facts."""
    run = learn(config, tmp_path / "run", stop_after=1)
    return adapt(run, [str(fact) for fact in run.tasks().tasks[0].facts[:2]], tmp_path / "adapted")


def test_before_and_after_are_the_numbers_of_evaluate_in_both_galleries(adapted, config):
    first, second = adapted.tasks().tasks
    before = protection_of(adapted)
    assert not before.learned_on
    assert [(fate.group, fate.count, fate.before) for fate in before.fates] == [
        ("protected", 2, before.fate("protected").now),
        ("rest", 1, before.fate("rest").now),
    ]
    learn_more(adapted)
    after = protection_of(adapted)
    assert after.learned_on
    assert (after.began, after.ended) == (first.name, second.name)
    assert after.names == tuple(map(str, first.facts[:2]))
    assert after.fate("protected").before == before.fate("protected").now
    groups = {"protected": first.facts[:2], "rest": first.facts[2:], "learned since": second.facts}
    named = {name: [str(fact) for fact in facts] for name, facts in groups.items()}
    tasks = [Task(name, tuple(facts)) for name, facts in groups.items()]
    found = evaluate_facts(
        parsed(config, evaluation={"subsets": named}),
        adapted.data,
        adapted.language(),
        tasks,
        vectors_of(adapted, 2),
    ).exact
    for fate in after.fates:
        assert fate.now == (found.tasks[fate.group].map, found.subsets[fate.group].map)
    assert after.fate("learned since").before == (None, None)


def test_classes_are_judged_told_their_task_and_not(shapes_config, tmp_path):
    run = learn(shapes_config, tmp_path / "run", stop_after=1)
    adapted = learn_more(adapt(run, ["round/red"], tmp_path / "adapted"))
    found = protection_of(adapted)
    assert found.names == ("round/red",)
    assert [(fate.group, fate.count) for fate in found.fates] == [("protected", 1), ("rest", 2), ("learned since", 3)]
    task = adapted.data.tasks[0]
    red = task.test.labels == task.classes.index("red")
    said = predictions_of(adapted, 2)[0]
    right = said.free_class[red] == task.classes.index("red")
    expected = (np.mean(said.own[red] == task.classes.index("red")), np.mean((said.free_task[red] == 0) & right))
    assert found.fate("protected").now == pytest.approx(expected)


def test_runs_that_protect_nothing_in_particular_have_nothing_to_show(config, tmp_path):
    assert protection_of(learn(config, tmp_path / "plain", stop_after=1)) is None
    later = learn(config, tmp_path / "first", stop_after=1)
    fact = str(later.tasks().tasks[1].facts[0])
    early = learn(config, tmp_path / "early", stop_after=1, strategy={**config["strategy"], "protect": [fact]})
    assert protection_of(early) is None


def test_images_without_labels_are_protected_without_a_group_of_their_own(config, tmp_path, manifest):
    run = learn(config, tmp_path / "run", stop_after=1)
    found = protection_of(adapt(run, manifest.parent, tmp_path / "adapted"))
    assert found.names == ()
    assert [fate.group for fate in found.fates] == ["known then"]
