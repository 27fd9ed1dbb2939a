"""What images show, by runs of facts and of classes."""

import json
from pathlib import Path

import numpy as np
import pytest

from factlearn.errors import FactlearnError, RunError
from factlearn.evaluation.scoring import fact_scores
from factlearn.facts import Fact
from factlearn.learning.held_out import calibration_of
from factlearn.learning.storage import read_sealed, write_sealed
from tests.learning.helpers import learn


@pytest.fixture
def run(config, tmp_path):
    return learn(config, tmp_path / "run")


@pytest.fixture
def class_run(shapes_config, tmp_path):
    return learn(shapes_config, tmp_path / "class-run")


def test_facts_of_an_image_are_ranked_by_calibrated_evidence_with_none_of_these_among_them(run, manifest):
    image = manifest.parent / "0-8.png"
    guesses = run.predict([image], top=100)
    assert len(guesses) == 6 + 1
    assert {guess.measure for guess in guesses} == {"probability"}
    calibration, vector = calibration_of(run), run.embed(image).astype(float)
    slope, constant = calibration.patterns["answer"]
    logits = {"none of these": 0.0}
    worth = dict(zip(calibration.facts, calibration.beliefs.worth, strict=True))
    for task in run.tasks().tasks:
        for fact in task.facts:
            target, mask = run.language().embed([fact])
            distance = ((vector - target[0]) ** 2).sum(1)
            evidence = np.array(calibration.beliefs.bias) - np.array(calibration.beliefs.slope) * distance
            logits[str(fact)] = worth[fact] + float(evidence[mask[0].astype(bool)].sum())
    total = sum(np.exp(list(logits.values())))
    for guess in guesses:
        share = np.exp(logits[guess.label]) / total
        plain = 1 / (1 + np.exp(-(slope * np.log(share / (1 - share)) + constant)))
        assert guess.value == pytest.approx(plain, rel=1e-3, abs=1e-5)
    assert [guess.value for guess in guesses] == sorted((guess.value for guess in guesses), reverse=True)


def test_a_run_without_held_out_photos_gives_scores_and_no_probability(run, manifest):
    record = run.stage_folder(2) / "stage.json"
    write_sealed(record, {**read_sealed(record), "calibration": None})
    (guess,) = run.predict([manifest.parent / "0-8.png"])
    assert guess.measure == "score"
    assert guess.value < 0


def test_a_folder_with_unreadable_images_lists_them_all_and_names_the_option(run, class_run, manifest, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    good = (manifest.parent / "0-8.png").read_bytes()
    for name, content in (("a.png", good), ("b.png", good[:80]), ("c.jpg", b"no image"), ("d.png", good)):
        (folder / name).write_bytes(content)
    for each in (run, class_run):
        with pytest.raises(FactlearnError, match=r"(?s)2 of 4 images.*--skip-unreadable.*b\.png.*c\.jpg"):
            each.predict([folder])
        guesses = each.predict([folder], skip_unreadable=True)
        assert [Path(guess.image).name for guess in guesses] == ["a.png", "d.png"]


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
    guesses = class_run.predict([folder], top=7)
    assert len(guesses) == 3 * 7
    assert len({guess.image for guess in guesses}) == 3
    first = guesses[:7]
    assert [guess.label for guess in first].count("none of these") == 1
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
