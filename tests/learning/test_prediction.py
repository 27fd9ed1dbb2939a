"""What images show, by runs of facts and of classes."""

import json

import numpy as np
import pytest

from factlearn.errors import FactlearnError, RunError
from factlearn.evaluation.scoring import fact_scores
from factlearn.facts import Fact
from tests.learning.helpers import learn


@pytest.fixture
def run(config, tmp_path):
    return learn(config, tmp_path / "run")


@pytest.fixture
def class_run(shapes_config, tmp_path):
    return learn(shapes_config, tmp_path / "run")


def test_facts_of_an_image_are_ranked_by_mean_distance_over_their_units(run, manifest):
    image = manifest.parent / "0-8.png"
    guesses = run.predict([image], top=100)
    assert len(guesses) == 6
    values = [guess.value for guess in guesses]
    assert values == sorted(values, reverse=True)
    vector, language = run.embed(image), run.language()
    for guess in guesses:
        assert guess.measure == "score"
        target, mask = language.embed([Fact.parse(guess.label)])
        distance = ((vector - target[0]) ** 2).sum(1)[mask[0].astype(bool)].mean()
        assert guess.value == pytest.approx(-distance, rel=1e-4, abs=1e-5)
        assert Fact.parse(guess.label) in next(task for task in run.tasks().tasks if task.name == guess.task).facts


def test_guesses_for_the_test_images_are_those_the_evaluation_judged(run):
    test = run.data.of_split("test").samples
    guesses = run.predict([sample.path for sample in test])
    right = np.mean([guess.label == str(sample.fact) for guess, sample in zip(guesses, test, strict=True)])
    assert right == pytest.approx(run.result().final.exact.image_to_fact.accuracy_at["1"])


def test_one_image_embeds_to_one_vector_and_several_to_several(run, manifest):
    paths = [manifest.parent / "0-0.png", str(manifest.parent / "1-0.png")]
    one, several = run.embed(str(paths[0])), run.embed(paths)
    assert one.shape == (3, 8)
    assert several.shape == (2, 3, 8)
    np.testing.assert_allclose(one, several[0], rtol=1e-2, atol=1e-3)
    assert not np.allclose(several, run.embed(paths, stage=1))
    assert fact_scores(several, *run.language().embed([Fact("tree")])).shape == (1, 2)


def test_guesses_can_be_kept_to_one_task_and_one_stage(run, manifest):
    image = manifest.parent / "0-8.png"
    assert {guess.task for guess in run.predict([image], task="task 2", top=9)} == {"task 2"}
    assert {guess.task for guess in run.predict([image], stage=1, top=9)} == {"task 1"}


def test_a_folder_gives_guesses_for_each_of_its_images(class_run, shapes):
    folder = shapes / "round" / "test" / "red"
    guesses = class_run.predict([folder], top=6)
    assert len(guesses) == 3 * 6
    assert len({guess.image for guess in guesses}) == 3
    first = guesses[:6]
    assert sum(guess.value for guess in first) == pytest.approx(2, abs=1e-4)  # two heads, each adds to one
    assert first[0].value == max(guess.value for guess in first)
    assert json.loads(json.dumps(first[0].to_json())).keys() == {"image", "task", "label", "probability"}


def test_classes_told_the_task_are_those_of_its_head(class_run, shapes):
    test = class_run.data.tasks[0]
    guesses = class_run.predict(list(test.test.paths), task="round")
    right = [guess.label == test.classes[label] for guess, label in zip(guesses, test.test.labels, strict=True)]
    assert np.mean(right) == pytest.approx(class_run.result().final.accuracy["round"])
    assert {guess.task for guess in guesses} == {"round"}


@pytest.mark.parametrize("kind", ["run", "class_run"])
def test_what_cannot_be_seen_is_one_sentence(kind, request, tmp_path, manifest):
    opened = request.getfixturevalue(kind)
    image = manifest.parent / "0-0.png"
    text, empty, broken = tmp_path / "notes.txt", tmp_path / "empty", tmp_path / "broken.png"
    text.write_text("hello")
    empty.mkdir()
    broken.write_bytes(image.read_bytes()[:80])
    for path, message in (
        (text, "not an image"),
        (tmp_path / "missing.png", "does not exist"),
        (empty, "holds no images"),
        (broken, "damaged or truncated"),
    ):
        with pytest.raises(FactlearnError, match=message):
            opened.predict([path])
    with pytest.raises(RunError, match="has not learned a task 'triangle'"):
        opened.predict([image], task="triangle")
    with pytest.raises(RunError, match="no stage 9"):
        opened.predict([image], stage=9)


def test_a_run_on_rows_cannot_look_at_images(digits_config, tmp_path, manifest):
    run = learn(digits_config, tmp_path / "run", training__epochs=1, stop_after=1)
    with pytest.raises(RunError, match="rows of 64 numbers"):
        run.predict([manifest.parent / "0-0.png"])


def test_a_classifier_has_no_fact_vectors(class_run, shapes):
    with pytest.raises(RunError, match="learned classes"):
        class_run.embed(next((shapes / "round" / "test" / "red").iterdir()))
