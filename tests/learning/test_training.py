"""Learning facts, from a config to a run directory."""

import shutil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from factlearn.errors import FactlearnError, ImageError, LanguageError, RunError
from factlearn.learning.facts import masked_squared_distance
from factlearn.learning.facts import test_vectors as vectors_of
from factlearn.learning.optimizer import set_rate
from factlearn.learning.problem import augmentation_views
from factlearn.learning.results import load_model
from factlearn.learning.runs import Run
from factlearn.learning.training import train
from tests.learning.helpers import learn, parsed, same_bits, tensors


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
    opened = Run.open(tmp_path / "run")
    assert opened.config == run.config
    assert opened.task_names() == ["task 1", "task 2"]
    assert {line["event"] for line in opened.metrics()} == {"epoch", "evaluation"}
    about = opened.description()
    assert about["seed"] == 3
    assert about["data_fingerprint"] == opened.data.fingerprint
    assert {"factlearn", "torch", "torchvision"} <= about["versions"].keys()
    assert opened.model().fingerprint() == opened.stage(2)["model_fingerprint"]
    test = opened.data.of_split("test").samples
    again = opened.embed([sample.path for sample in test])
    np.testing.assert_allclose(vectors_of(opened, 2), again, rtol=1e-3, atol=1e-5)


def test_the_same_seed_gives_the_same_run_and_another_seed_another(config, tmp_path):
    runs = [learn(config, tmp_path / name, seed=seed) for name, seed in (("a", 3), ("b", 3), ("c", 4))]
    weights = [tensors(run, 2, "model") for run in runs]
    assert same_bits(weights[0], weights[1])
    assert not same_bits(weights[0], weights[2])


def test_a_config_file_is_enough_to_train(config, tmp_path):
    (tmp_path / "own.yaml").write_text(parsed(config, training__epochs=1).to_yaml())
    run = train(str(tmp_path / "own.yaml"), str(tmp_path / "run"), stop_after=1)
    assert run.finished_stages() == 1


def test_kept_activations_change_nothing_but_the_time(config, tmp_path):
    one = learn(config, tmp_path / "kept")
    other = learn(config, tmp_path / "fresh", model__keep_activations=False)
    expected = tensors(other, 2, "model")
    for name, tensor in tensors(one, 2, "model").items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-2, atol=1e-4)


def test_convolutions_learn_where_they_are_not_frozen(config, tmp_path):
    config["model"] = {**config["model"], "frozen": "conv4", "standardise": False}
    run = learn(config, tmp_path / "run", training__epochs=1, training__learning_rate=1e-4)
    first, last = (tensors(run, stage, "model") for stage in (1, 2))
    assert not torch.equal(first["convolutions.0.weight"], last["convolutions.0.weight"])


def test_standardising_statistics_stay_those_of_the_first_task(config, tmp_path):
    run = learn(config, tmp_path / "run", model__standardise=True)
    first, last = (tensors(run, stage, "model") for stage in (1, 2))
    assert float(first["standardise.deviation"]) > 0
    assert torch.equal(first["standardise.mean"], last["standardise.mean"])


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({"schedule": "constant"}, [1, 1, 1, 1]),
        ({"schedule": "cosine"}, [1, 0.8536, 0.5, 0.1464]),
        ({"schedule": "step", "step_epochs": [1, 3]}, [1, 0.1, 0.1, 0.01]),
    ],
)
def test_schedules_scale_the_rate_by_epoch(config, schedule, expected):
    training = parsed(config, training={"epochs": 4, "learning_rate": 2.0, **schedule}).training
    optimizer = torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(1))], "scale": 0.5}], lr=2.0)
    for epoch, factor in enumerate(expected):
        set_rate(optimizer, training, epoch, 100)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(factor, abs=1e-3)


def test_warming_up_raises_the_rate_step_by_step(config):
    training = parsed(config, training={"learning_rate": 1.0, "warmup_steps": 4}).training
    optimizer = torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(1))], "scale": 1.0}], lr=1.0)
    rates = []
    for step in range(6):
        set_rate(optimizer, training, 0, step)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [0.25, 0.5, 0.75, 1, 1, 1]


def test_augmentation_draws_from_every_pair_of_flip_and_zoom(config):
    training = parsed(config, training={"flip": True, "zoom": [1.2, 0.8]}).training
    assert len({view.name for view in augmentation_views(training)}) == 6


def test_a_run_is_never_overwritten(config, tmp_path):
    learn(config, tmp_path / "run", training__epochs=1)
    with pytest.raises(RunError, match="holds a run already"):
        learn(config, tmp_path / "run", training__epochs=1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="not empty"):
        learn(config, tmp_path / "other")
    assert (tmp_path / "other" / "notes.txt").read_text() == "mine"


def test_a_run_that_diverges_before_anything_was_learned_says_so_and_leaves_nothing(config, tmp_path):
    with pytest.raises(RunError, match="diverged in epoch 1"):
        learn(config, tmp_path / "run", training__learning_rate=1e12)
    assert not (tmp_path / "run").exists()


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
def test_what_cannot_be_carried_out_is_refused_before_anything_is_written(config, tmp_path, changes, says):
    with pytest.raises(FactlearnError, match=says):
        learn(config, tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


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


def test_ridge_learns_facts_without_gradient_steps(config, tmp_path):
    run = learn(config, tmp_path / "run", strategy={"name": "ridge"})
    assert not [line for line in run.metrics() if line["event"] == "epoch"]
    assert run.result().final.map_all > 0


@pytest.mark.parametrize("source", ["test", "both", ["<person, riding, bike>"], "folder"])
def test_importance_is_measured_where_the_config_says(config, tmp_path, manifest, source):
    where = str(manifest.parent) if source == "folder" else source
    plain = learn(config, tmp_path / "plain", training__epochs=1)
    other = learn(config, tmp_path / "other", training__epochs=1, strategy__importance=where)
    one, two = (tensors(run, 1, "strategy") for run in (plain, other))
    omegas = [name for name in one if name.startswith("omega.")]
    assert omegas
    assert not all(torch.allclose(one[name], two[name]) for name in omegas)
    assert all(torch.equal(one[name], two[name]) for name in one if name.startswith("theta_star."))


def test_importance_can_differ_from_task_to_task(config, tmp_path):
    by_task = {"task 1": "test", "task 2": "train"}
    mixed = learn(config, tmp_path / "mixed", training__epochs=1, strategy__importance=by_task)
    tested = learn(config, tmp_path / "tested", training__epochs=1, strategy__importance="test")
    assert same_bits(tensors(mixed, 1, "strategy"), tensors(tested, 1, "strategy"))
    assert not same_bits(tensors(mixed, 2, "strategy"), tensors(tested, 2, "strategy"))


def test_a_perceptron_learns_facts_from_pixels(config, tmp_path):
    network = {"backbone": "perceptron", "weights": None, "image_size": 32, "hidden": [8], "dropout": 0.0}
    run = learn(config, tmp_path / "run", model=network, training__epochs=1, training__learning_rate=1e-4)
    assert load_model(run).suffix.shared[0].weight.shape == (8, 3 * 32 * 32)


def test_all_images_that_cannot_be_read_are_named_at_once_with_the_way_out(config, manifest, tmp_path):
    folder = tmp_path / "photos"
    shutil.copytree(manifest.parent, folder)
    for name in ("0-0.png", "3-1.png", "5-2.png"):
        (folder / name).write_bytes((folder / name).read_bytes()[:100])
    with pytest.raises(ImageError) as caught:
        learn(config, tmp_path / "run", data={"source": "manifest", "manifest": str(folder / manifest.name)})
    assert "3 images cannot be read" in str(caught.value)
    assert "data.on_error to skip" in str(caught.value)
    assert all(name in str(caught.value) for name in ("0-0.png", "3-1.png", "5-2.png"))
    assert not (tmp_path / "run").exists()
