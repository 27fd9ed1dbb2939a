"""Importance measured again on what a user cares about, and learning the next tasks."""

import pytest
import torch

from factlearn.errors import DatasetError, RunError
from factlearn.learning.adaptation import USAGE, adapt, learn_from_use
from factlearn.learning.runs import Run
from factlearn.learning.training import learn_more
from factlearn.lifelong.importance import Importance, estimate
from factlearn.lifelong.measures import Fisher
from factlearn.lifelong.registry import METHODS
from factlearn.models.inputs import in_order, open_inputs
from tests.learning.helpers import assert_same_run, learn, omega_of, same_bits, tensors

UNADAPTABLE = [name for name, each in METHODS.items() if not each.importance and not each.strategy.weighs_labels]


@pytest.fixture
def run(config, tmp_path):
    """The first of two tasks of facts, learned with MAS."""
    return learn(config, tmp_path / "run", stop_after=1)


@pytest.fixture
def class_run(shapes_config, tmp_path):
    """The first of two tasks of classes, learned with MAS."""
    return learn(shapes_config, tmp_path / "run", stop_after=1)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def measured_on(run, paths, measure="mas"):
    model = run.model()
    return estimate(model.suffix, in_order(open_inputs(model, paths, keep=False), 7), measure=measure).mean()


def assert_same_importance(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert tensor.any()
        torch.testing.assert_close(tensor, other[name], rtol=1e-3, atol=1e-4 * float(tensor.max()))


def facts_of(run):
    return [str(fact) for fact in run.tasks().tasks[0].facts]


# Facts


def test_adapted_importance_is_that_of_the_chosen_facts_images_alone(run, tmp_path, manifest):
    fact = facts_of(run)[0]
    adapted = adapt(run, [fact], tmp_path / "adapted")
    rows = [line.split(",") for line in manifest.read_text().splitlines()[1:]]
    units = fact.strip("<>").split(", ")
    paths = [manifest.parent / row[0] for row in rows if row[1] == "train" and [u for u in row[2:5] if u] == units]
    assert len(paths) == 6
    assert_same_importance(omega_of(adapted), measured_on(run, paths))
    before, after = (omega_of(each)["shared.0.weight"] for each in (run, adapted))
    assert (before - after).abs().max() > 0.1 * before.max()


def test_adapting_needs_no_labels_only_images(run, tmp_path, manifest):
    adapted = adapt(run, manifest.parent, tmp_path / "adapted")
    assert_same_importance(omega_of(adapted), measured_on(run, sorted(manifest.parent.glob("*.png"))))


def test_adapting_leaves_the_old_run_and_the_model_as_they_are(run, tmp_path):
    before = contents(run.folder)
    adapted = adapt(run, facts_of(run)[:1], tmp_path / "adapted")
    assert contents(run.folder) == before
    assert adapted.model().fingerprint() == run.model().fingerprint()
    assert adapted.description()["adapted"]["stage"] == 1


def test_the_sequence_continues_from_an_adapted_run_with_constant_memory(run, tmp_path):
    facts = facts_of(run)[:1]
    adapted = adapt(run, facts, tmp_path / "adapted")
    learn_more(adapted, ["task 2"])
    assert adapted.finished_stages() == 2
    assert adapted.stage(2)["memory"]["stored_bytes"] == adapted.stage(1)["memory"]["stored_bytes"]
    assert list(adapted.config.strategy.importance) == facts


def test_unknown_facts_and_taken_places_are_refused(run, tmp_path):
    with pytest.raises(DatasetError, match="No fact"):
        adapt(run, ["<cat>"], tmp_path / "adapted")
    assert not (tmp_path / "adapted").exists()
    with pytest.raises(RunError, match="exists already"):
        adapt(run, ["<tree>"], run.folder)


@pytest.mark.parametrize("name", UNADAPTABLE)
def test_methods_that_measure_no_importance_on_images_cannot_adapt(config, tmp_path, name):
    other = learn(config, tmp_path / name, strategy={"name": name}, training__epochs=1, stop_after=1)
    with pytest.raises(RunError, match="cannot measure importance on images"):
        adapt(other, ["<tree>"], tmp_path / "adapted")
    assert not (tmp_path / "adapted").exists()


# Classes


def test_an_adapted_classifier_remembers_the_class_and_continues(class_run, shapes_config, tmp_path):
    adapted = adapt(class_run, ["round/red"], tmp_path / "adapted")
    before, after = (tensors(each, 1, "strategy") for each in (class_run, adapted))
    assert before.keys() == after.keys()
    assert not torch.equal(before["omega.shared.0.weight"], after["omega.shared.0.weight"])
    assert torch.equal(before["theta_star.shared.0.weight"], after["theta_star.shared.0.weight"])
    assert adapted.config.strategy.importance == ("round/red",)
    assert learn_more(adapted).result().learned == [["round"], ["round", "square"]]
    assert class_run.finished_stages() == 1
    # Importance from the beginning and importance adapted after the first task are the same thing.
    whole = learn(shapes_config, tmp_path / "whole", strategy={"name": "mas", "importance": ["round/red"]})
    assert same_bits(tensors(whole, 2, "model"), tensors(adapted, 2, "model"))


def test_a_classifier_adapts_to_a_folder_of_images_without_labels(class_run, shapes, tmp_path):
    adapted = adapt(class_run, shapes / "round" / "test", tmp_path / "adapted")
    assert not torch.equal(omega_of(class_run)["shared.0.weight"], omega_of(adapted)["shared.0.weight"])
    assert not [name for name in tensors(adapted, 1, "strategy") if "heads" in name]


def test_classes_that_cannot_be_protected_are_refused(class_run, shapes_config, tmp_path):
    with pytest.raises(RunError, match="square has not been learned yet"):
        adapt(class_run, ["square/red"], tmp_path / "a")
    with pytest.raises(DatasetError, match="did you mean"):
        adapt(class_run, ["round/rad"], tmp_path / "a")
    with pytest.raises(RunError, match="exists already"):
        adapt(class_run, ["round/red"], class_run.folder)
    plain = learn(shapes_config, tmp_path / "si", strategy={"name": "si"}, stop_after=1)
    with pytest.raises(RunError, match="cannot measure importance"):
        adapt(plain, ["round/red"], tmp_path / "a")
    assert not (tmp_path / "a").exists()


# The next tasks


@pytest.mark.parametrize("kind", ["config", "digits_config"])
def test_learning_the_next_tasks_is_the_run_in_one_go(kind, request, tmp_path):
    config = request.getfixturevalue(kind)
    whole = learn(config, tmp_path / "whole")
    part = learn(config, tmp_path / "part", stop_after=1)
    learn_more(part, count=1)
    assert part.finished_stages() == 2
    if whole.finished_stages() > 2:
        learn_more(part)
    assert_same_run(whole, part)


def test_facts_can_be_learned_in_another_order(config, tmp_path):
    run = learn(config, tmp_path / "run", tasks__count=3, training__epochs=1, stop_after=1)
    learn_more(run, ["task 3"])
    assert run.task_names() == ["task 1", "task 3", "task 2"]
    learn_more(run)
    assert run.result().learned[-1] == ["task 1", "task 3", "task 2"]
    assert run.result().in_turn


def test_heads_are_learned_in_the_order_of_the_tasks(digits_config, tmp_path):
    run = learn(digits_config, tmp_path / "run", training__epochs=1, stop_after=1)
    names = run.task_names()
    with pytest.raises(RunError, match="learns its tasks in order"):
        learn_more(run, [names[2]])
    assert run.task_names() == names
    assert run.finished_stages() == 1


@pytest.mark.parametrize(
    ("names", "says"), [(["task 9"], "no task 'task 9'"), (["task 1"], "learned 'task 1' already")]
)
def test_tasks_that_cannot_be_learned_are_named(run, names, says):
    with pytest.raises(RunError, match=says):
        learn_more(run, names)


def test_a_run_continues_with_the_rows_it_recorded_when_its_manifest_lost_one(config, manifest, tmp_path, capsys):
    own = manifest.with_name("changing.csv")
    own.write_text(manifest.read_text())
    run = learn(config, tmp_path / "run", data__manifest=str(own), stop_after=1)
    own.write_text("\n".join(own.read_text().splitlines()[:-1]) + "\n")
    learned = learn_more(Run.open(run.folder))
    assert "1 row no longer listed" in capsys.readouterr().err
    assert learned.finished_stages() == 2


def test_a_finished_run_has_nothing_left_to_learn(digits_config, tmp_path):
    run = learn(digits_config, tmp_path / "run", training__epochs=1)
    with pytest.raises(RunError, match="all its tasks"):
        learn_more(run)


# Importance in use


def test_importance_in_use_adds_up_online_and_can_be_adapted_to(run, tmp_path, manifest):
    with pytest.raises(RunError, match="no importance in use"):
        adapt(run, None, tmp_path / "early")
    paths = sorted(manifest.parent.glob("*.png"))
    learn_from_use(run, paths[:20], batch_size=5)
    learn_from_use(run, paths[20:])
    assert_same_importance(Importance.load(run.folder / USAGE).mean(), measured_on(run, paths))
    assert learn_from_use(run, paths).count == 2 * len(paths)
    adapted = adapt(run, None, tmp_path / "adapted")
    assert_same_importance(omega_of(adapted), measured_on(run, paths))
    assert not (adapted.folder / USAGE).exists()


def test_importance_in_use_is_what_the_runs_own_method_measures(config, tmp_path, manifest):
    run = learn(config, tmp_path / "ewc", strategy={"name": "ewc", "labels": "true", "lambda": 1.0}, stop_after=1)
    paths = sorted(manifest.parent.glob("*.png"))
    expected = measured_on(run, paths, Fisher("true", "gaussian"))
    assert_same_importance(learn_from_use(run, paths).mean(), expected)


def test_a_classifier_in_use_gathers_the_importance_of_its_shared_layers_and_continues(class_run, shapes, tmp_path):
    folder = shapes / "round" / "test"
    learn_from_use(class_run, sorted(folder.rglob("*.png")))
    used, shown = (adapt(class_run, source, tmp_path / str(n)) for n, source in enumerate((None, folder)))
    assert_same_importance(omega_of(used), omega_of(shown))
    assert not [name for name in omega_of(used) if "heads" in name]
    assert learn_more(used).finished_stages() == 2
