import pytest
import torch

from factlearn.config import parse_config
from factlearn.errors import DatasetError, RunError
from factlearn.indexing.building import build_index
from factlearn.learning.adaptation import USAGE, adapt, learn_from_use, learn_more
from factlearn.learning.results import load_model
from factlearn.learning.runs import load_tensors
from factlearn.learning.training import train
from factlearn.lifelong.importance import Importance, estimate
from factlearn.lifelong.measures import Fisher
from factlearn.models.inputs import in_order, open_inputs
from factlearn.models.preprocess import Preprocess


@pytest.fixture
def run(config, tmp_path):
    """The first of two tasks, learned with MAS."""
    return train(parse_config(config, "test"), tmp_path / "run", stop_after=1)


def omega_of(run, stage=1):
    state = load_tensors(run.stage_folder(stage) / "strategy.safetensors")
    return {name.removeprefix("omega."): tensor for name, tensor in state.items() if name.startswith("omega.")}


def measured_on(run, paths):
    model = load_model(run)
    inputs = open_inputs(model, Preprocess(32, "crop"), paths, store=None)
    return estimate(model.suffix, in_order(inputs, 7), measure="mas")


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert tensor.any()
        torch.testing.assert_close(tensor, other[name], rtol=1e-3, atol=1e-4 * float(tensor.max()))


def facts_of(run):
    return [str(fact) for fact in run.tasks().tasks[0].facts]


def test_adapted_importance_is_that_of_the_chosen_facts_images_alone(run, tmp_path, manifest):
    (fact,) = facts_of(run)[:1]
    adapted = adapt(run, [fact], tmp_path / "adapted")
    rows = [line.split(",") for line in manifest.read_text().splitlines()[1:]]
    units = fact.strip("<>").split(", ")
    paths = [manifest.parent / row[0] for row in rows if row[1] == "train" and [u for u in row[2:5] if u] == units]
    assert len(paths) == 6
    assert_same(omega_of(adapted), measured_on(run, paths).mean())
    before, after = (omega_of(r)["shared.0.weight"] for r in (run, adapted))
    assert (before - after).abs().max() > 0.1 * before.max()


def test_adapting_needs_no_labels_only_images(run, tmp_path, manifest):
    adapted = adapt(run, manifest.parent, tmp_path / "adapted")
    assert_same(omega_of(adapted), measured_on(run, sorted(manifest.parent.glob("*.png"))).mean())


def test_adapting_leaves_the_old_run_and_the_model_as_they_are(run, tmp_path):
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    adapted = adapt(run, facts_of(run)[:1], tmp_path / "adapted")
    assert {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()} == before
    assert load_model(adapted).fingerprint() == load_model(run).fingerprint()
    assert adapted.description()["adapted"]["stage"] == 1


def test_the_sequence_goes_on_from_an_adapted_run_with_constant_memory(run, tmp_path):
    facts = facts_of(run)[:1]
    adapted = adapt(run, facts, tmp_path / "adapted")
    learn_more(adapted, ["task 2"])
    assert adapted.finished_stages() == 2
    assert adapted.stage(2)["memory"]["stored_bytes"] == adapted.stage(1)["memory"]["stored_bytes"]
    assert list(adapted.config.strategy.importance) == facts


def test_going_on_without_adapting_is_the_run_in_one_go(run, config, tmp_path):
    whole = train(parse_config(config, "test"), tmp_path / "whole")
    learn_more(run, [])
    one, two = (load_tensors(r.stage_folder(2) / "model.safetensors") for r in (whole, run))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    ("names", "says"), [(["task 9"], "no task 'task 9'"), (["task 1"], "learned 'task 1' already")]
)
def test_tasks_that_cannot_be_learned_are_named(run, names, says):
    with pytest.raises(RunError, match=says):
        learn_more(run, names)


def test_a_run_does_not_go_on_with_data_that_changed(config, manifest, tmp_path):
    own = manifest.with_name("changing.csv")
    own.write_text(manifest.read_text())
    changing = {**config, "data": {**config["data"], "manifest": str(own)}}
    run = train(parse_config(changing, "test"), tmp_path / "run", stop_after=1)
    own.write_text("\n".join(own.read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(RunError, match="has changed"):
        learn_more(run, [])


def test_a_finished_run_has_nothing_left_to_learn(run):
    learn_more(run, [])
    with pytest.raises(RunError, match="all its tasks"):
        learn_more(run, [])


@pytest.mark.parametrize("name", ["finetune", "si", "lwf", "ridge"])
def test_methods_that_measure_no_importance_on_images_cannot_adapt(config, tmp_path, name):
    other = train(parse_config({**config, "strategy": {"name": name}}, "test"), tmp_path / name, stop_after=1)
    with pytest.raises(RunError, match="cannot measure importance on images"):
        adapt(other, ["<tree>"], tmp_path / "adapted")


def test_unknown_facts_and_taken_places_are_refused(run, tmp_path):
    with pytest.raises(DatasetError, match="No fact"):
        adapt(run, ["<cat>"], tmp_path / "adapted")
    with pytest.raises(RunError, match="exists already"):
        adapt(run, ["<tree>"], run.folder)


def test_importance_in_use_adds_up_online_and_can_be_adapted_to(run, tmp_path, manifest):
    with pytest.raises(RunError, match="no importance in use"):
        adapt(run, None, tmp_path / "early")
    index = build_index(run, str(manifest.parent), tmp_path / "index")
    learn_from_use(run, index.paths, batch_size=5)
    paths = sorted(manifest.parent.glob("*.png"))
    assert_same(Importance.load(run.folder / USAGE).mean(), measured_on(run, paths).mean())
    assert learn_from_use(run, index.paths).count == 2 * len(paths)
    adapted = adapt(run, None, tmp_path / "adapted")
    assert_same(omega_of(adapted), measured_on(run, paths).mean())


def test_importance_in_use_is_what_the_runs_own_method_measures(config, tmp_path, manifest):
    strategy = {"name": "ewc", "labels": "true", "lambda": 1.0}
    ewc = train(parse_config({**config, "strategy": strategy}, "test"), tmp_path / "ewc", stop_after=1)
    index = build_index(ewc, str(manifest.parent), tmp_path / "index")
    gathered = learn_from_use(ewc, index.paths).mean()
    model = load_model(ewc)
    inputs = open_inputs(model, Preprocess(32, "crop"), index.paths, store=None)
    fisher = estimate(model.suffix, in_order(inputs, 7), measure=Fisher("true", "gaussian")).mean()
    assert_same(gathered, fisher)
