import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from factlearn.config import parse_config
from factlearn.errors import FactlearnError, LanguageError, RunError
from factlearn.learning.optimizer import set_rate
from factlearn.learning.results import load_model, load_result
from factlearn.learning.runs import Run, load_tensors
from factlearn.learning.stages import augmentation_views, masked_squared_distance
from factlearn.learning.training import train


def learn(config, folder, **changes):
    raw = json.loads(json.dumps(config))
    for key, value in changes.items():
        section, _, name = key.partition("__")
        raw[section] = {**raw[section], name: value} if name else value
    return train(parse_config(raw, "test"), folder)


def learn_interrupted(config, folder, monkeypatch, strategy, at):
    """Train until the `at`-th line of metrics was logged, then get a Ctrl-C."""
    original = Run.log
    logged = []

    def interrupt(self, **values):
        original(self, **values)
        logged.append(values)
        if len(logged) == at:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Run, "log", interrupt)
        with pytest.raises(KeyboardInterrupt):
            learn(config, folder, strategy=strategy)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_the_loss_is_the_mean_over_images_of_the_squared_distance_to_the_units_they_have(masks):
    generator = torch.Generator().manual_seed(len(masks))
    vectors, targets = torch.randn(2, len(masks), 3, 4, generator=generator)
    mask = torch.tensor(masks)
    plain = 0.0
    for image in range(len(masks)):
        for unit in range(3):
            if masks[image][unit]:
                plain += float(((vectors[image, unit] - targets[image, unit]) ** 2).sum())
    loss = masked_squared_distance(vectors, targets, mask.float())
    assert float(loss) == pytest.approx(plain / len(masks), rel=1e-5, abs=1e-6)


def test_a_missing_unit_gets_no_gradient():
    vectors = torch.randn(1, 3, 4, requires_grad=True)
    masked_squared_distance(vectors, torch.zeros(1, 3, 4), torch.tensor([[1.0, 0.0, 1.0]])).backward()
    assert not vectors.grad[0, 1].any()
    assert vectors.grad[0, 0].any()


def test_a_run_leaves_everything_needed_to_look_at_it_again(config, tmp_path):
    run = learn(config, tmp_path / "run")
    assert run.finished_stages() == 2
    result = load_result(Run.open(tmp_path / "run"))
    assert result.learned == [["task 1"], ["task 1", "task 2"]]
    assert result.matrix("exact")[0][1] is None
    assert 0 <= result.final.map_all <= 1
    assert set(result.final.exact.subsets) == {"sports"}
    assert result.forgetting("exact").per_task[0] == pytest.approx(
        result.matrix("exact")[0][0] - result.matrix("exact")[1][0]
    )
    recorded = run.stage(2)["evaluation"]
    assert recorded["map_all"] == result.final.map_all
    assert {line["event"] for line in run.metrics()} == {"epoch", "evaluation"}
    assert run.description()["seed"] == 3


def test_vectors_of_the_saved_model_are_those_the_training_left(config, tmp_path):
    run = learn(config, tmp_path / "run")
    kept, fresh = load_result(run), load_result(run, fresh=True)
    for one, other in zip(kept.vectors, fresh.vectors, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    assert load_model(run).fingerprint() == run.stage(2)["model_fingerprint"]


def test_the_same_seed_gives_the_same_run_and_another_seed_another(config, tmp_path):
    runs = [learn(config, tmp_path / name, seed=seed) for name, seed in (("a", 3), ("b", 3), ("c", 4))]
    weights = [load_tensors(run.stage_folder(2) / "model.safetensors") for run in runs]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not all(torch.equal(weights[0][name], weights[2][name]) for name in weights[0])


@pytest.mark.parametrize("strategy", [{"name": "mas", "lambda": 2.0}, {"name": "finetune"}, {"name": "joint"}])
@pytest.mark.parametrize("interrupt_at", [2, 4])
def test_a_resumed_run_is_bit_for_bit_one_never_interrupted(config, tmp_path, monkeypatch, strategy, interrupt_at):
    whole = learn(config, tmp_path / "whole", strategy=strategy)
    learn_interrupted(config, tmp_path / "cut", monkeypatch, strategy, interrupt_at)
    cut = train(parse_config({**config, "strategy": strategy}, "test"), tmp_path / "cut", resume=True)
    assert cut.finished_stages() == whole.finished_stages()
    for stage in range(1, whole.finished_stages() + 1):
        for file in ("model", "strategy", "vectors"):
            one, other = (load_tensors(run.stage_folder(stage) / f"{file}.safetensors") for run in (whole, cut))
            assert one.keys() == other.keys()
            assert all(torch.equal(one[name], other[name]) for name in one)
    assert cut.metrics() == whole.metrics()


def test_metrics_of_epochs_that_no_checkpoint_kept_are_not_logged_twice(config, tmp_path, monkeypatch):
    config["training"] = {**config["training"], "checkpoint_epochs": 10}
    whole = learn(config, tmp_path / "whole")
    for at in (2, 6):
        learn_interrupted(config, tmp_path / f"cut-{at}", monkeypatch, config["strategy"], at)
        cut = train(parse_config(config, "test"), tmp_path / f"cut-{at}", resume=True)
        assert cut.metrics() == whole.metrics()


def test_kept_activations_change_nothing_but_the_time(config, tmp_path):
    one = learn(config, tmp_path / "kept")
    other = learn(config, tmp_path / "fresh", model__keep_activations=False)
    for name, tensor in load_tensors(one.stage_folder(2) / "model.safetensors").items():
        expected = load_tensors(other.stage_folder(2) / "model.safetensors")[name]
        torch.testing.assert_close(tensor, expected, rtol=1e-2, atol=1e-4)


def test_convolutions_learn_where_they_are_not_frozen(config, tmp_path):
    config["model"] = {**config["model"], "frozen": "conv4", "standardise": False}
    run = learn(config, tmp_path / "run", training__epochs=1, training__learning_rate=1e-4)
    first, last = (load_tensors(run.stage_folder(stage) / "model.safetensors") for stage in (1, 2))
    assert not torch.equal(first["convolutions.0.weight"], last["convolutions.0.weight"])


def test_standardising_statistics_stay_those_of_the_first_task(config, tmp_path):
    run = learn(config, tmp_path / "run", model__standardise=True)
    first, last = (load_tensors(run.stage_folder(stage) / "model.safetensors") for stage in (1, 2))
    assert float(first["standardise.deviation"]) > 0
    assert torch.equal(first["standardise.mean"], last["standardise.mean"])


def test_joint_has_one_stage_with_every_task_and_no_forgetting(config, tmp_path):
    result = load_result(learn(config, tmp_path / "run", strategy={"name": "joint"}))
    assert result.learned == [["task 1", "task 2"]]
    assert result.forgetting("exact") is None
    assert None not in result.matrix("exact")[0]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({"schedule": "constant"}, [1, 1, 1, 1]),
        ({"schedule": "cosine"}, [1, 0.8536, 0.5, 0.1464]),
        ({"schedule": "step", "step_epochs": [1, 3]}, [1, 0.1, 0.1, 0.01]),
    ],
)
def test_schedules_scale_the_rate_by_epoch(config, schedule, expected):
    training = parse_config({**config, "training": {"epochs": 4, "learning_rate": 2.0, **schedule}}, "test").training
    optimizer = torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(1))], "scale": 0.5}], lr=2.0)
    for epoch, factor in enumerate(expected):
        set_rate(optimizer, training, epoch, 100)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(factor, abs=1e-3)


def test_warming_up_raises_the_rate_step_by_step(config):
    training = parse_config({**config, "training": {"learning_rate": 1.0, "warmup_steps": 4}}, "test").training
    optimizer = torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(1))], "scale": 1.0}], lr=1.0)
    rates = []
    for step in range(6):
        set_rate(optimizer, training, 0, step)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [0.25, 0.5, 0.75, 1, 1, 1]


def test_augmentation_draws_from_every_pair_of_flip_and_zoom(config):
    training = parse_config({**config, "training": {"flip": True, "zoom": [1.2, 0.8]}}, "test").training
    assert len({view.name for view in augmentation_views(training)}) == 6


def test_a_run_is_never_overwritten(config, tmp_path):
    learn(config, tmp_path / "run", training__epochs=1)
    with pytest.raises(RunError, match="holds a run already"):
        learn(config, tmp_path / "run", training__epochs=1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="not empty"):
        learn(config, tmp_path / "other")


def test_resuming_with_another_config_is_refused(config, tmp_path):
    learn(config, tmp_path / "run", training__epochs=1)
    with pytest.raises(RunError, match="another config"):
        train(parse_config(config, "test"), tmp_path / "run", resume=True)


def test_a_diverging_run_says_so(config, tmp_path):
    with pytest.raises(RunError, match="diverged"):
        learn(config, tmp_path / "run", training__learning_rate=1e12)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"evaluation__subsets": {"sports": ["<cat>"]}}, "No fact of the dataset matches <cat>"),
        ({"tasks__count": 50}, "cannot be split"),
        ({"model__weights": "no/such.safetensors"}, "does not exist"),
        ({"model__weights": None}, "no weights to freeze"),
        ({"device": "quantum"}, "cannot be used"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(config, tmp_path, changes, says):
    with pytest.raises(FactlearnError, match=says):
        learn(config, tmp_path / "run", **changes)


def test_a_fact_without_word_vectors_is_named_before_anything_is_written(config, tmp_path, manifest):
    bad = manifest.with_name("unknown-word.csv")
    bad.write_text(manifest.read_text().replace("tree", "quux"))
    with pytest.raises(LanguageError, match="quux"):
        learn(config, tmp_path / "run", data__manifest=str(bad))
    assert not (tmp_path / "run").exists()


def test_a_run_cut_off_at_its_beginning_leaves_nothing(config, tmp_path, monkeypatch):
    def cut(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("factlearn.learning.training.save_tensors", cut)
        with pytest.raises(KeyboardInterrupt):
            learn(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


METHODS = ["l-mas", "mas-vector", "ewc", "si", "lwf", "ebll", "imm-mean", "imm-mode"]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_facts_and_resumes_bit_for_bit(config, tmp_path, monkeypatch, name):
    strategy = {"name": name}
    whole = learn(config, tmp_path / "whole", strategy=strategy)
    learn_interrupted(config, tmp_path / "cut", monkeypatch, strategy, 6)  # in the second stage, after a checkpoint
    cut = train(parse_config({**config, "strategy": strategy}, "test"), tmp_path / "cut", resume=True)
    for file in ("model", "strategy"):
        one, other = (load_tensors(run.stage_folder(2) / f"{file}.safetensors") for run in (whole, cut))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[tensor], other[tensor]) for tensor in one)
    memory = whole.stage(2)["memory"]
    assert memory["model_bytes"] > 0
    assert memory["training_bytes"] > 0


def test_ridge_learns_facts_without_gradient_steps_and_goes_on_from_any_task(config, tmp_path):
    parsed = parse_config({**config, "strategy": {"name": "ridge"}}, "test")
    whole = train(parsed, tmp_path / "whole")
    train(parsed, tmp_path / "cut", stop_after=1)
    cut = train(parsed, tmp_path / "cut", resume=True)
    assert not [line for line in whole.metrics() if line["event"] == "epoch"]
    for file in ("model", "strategy"):
        one, other = (load_tensors(run.stage_folder(2) / f"{file}.safetensors") for run in (whole, cut))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[tensor], other[tensor]) for tensor in one)


@pytest.mark.parametrize("source", ["test", "both", ["<person, riding, bike>"], "folder"])
def test_importance_is_measured_where_the_config_says(config, tmp_path, manifest, source):
    if source == "folder":
        source = str(manifest.parent)
    plain = learn(config, tmp_path / "plain", training__epochs=1)
    other = learn(config, tmp_path / "other", training__epochs=1, strategy__importance=source)
    one, two = (load_tensors(run.stage_folder(1) / "strategy.safetensors") for run in (plain, other))
    omegas = [name for name in one if name.startswith("omega.")]
    assert omegas
    assert not all(torch.allclose(one[name], two[name]) for name in omegas)
    assert all(torch.equal(one[name], two[name]) for name in one if name.startswith("theta_star."))


def test_importance_can_differ_from_task_to_task(config, tmp_path):
    by_task = {"task 1": "test", "task 2": "train"}
    mixed = learn(config, tmp_path / "mixed", training__epochs=1, strategy__importance=by_task)
    tested = learn(config, tmp_path / "tested", training__epochs=1, strategy__importance="test")
    first = [load_tensors(run.stage_folder(1) / "strategy.safetensors") for run in (mixed, tested)]
    assert all(torch.equal(first[0][name], first[1][name]) for name in first[0])


def test_training_can_stop_after_some_tasks_and_go_on_later(config, tmp_path):
    raw = parse_config(config, "test")
    whole = train(raw, tmp_path / "whole")
    run = train(raw, tmp_path / "run", stop_after=1)
    assert run.finished_stages() == 1
    run = train(raw, tmp_path / "run", resume=True)
    assert run.finished_stages() == 2
    one, two = (load_tensors(r.stage_folder(2) / "model.safetensors") for r in (whole, run))
    assert all(torch.equal(one[name], two[name]) for name in one)
