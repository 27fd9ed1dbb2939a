from pathlib import Path

import numpy as np
import pytest

from factlearn.data.classes import ClassSequence, ClassTask, Rows, task_of
from factlearn.errors import DatasetError
from tests.data.conftest import picture

LABELS = np.array([0, 1])


def rows(width=3):
    return Rows(np.zeros((2, width), np.float32), LABELS)


def sequence(*tasks):
    return ClassSequence("mine", tuple(ClassTask(name, classes, rows(), rows()) for name, classes in tasks))


def test_a_class_is_found_by_its_name_or_with_its_task():
    two = sequence(("round", ("Red", "blue")), ("square", ("red", "green")))
    assert two.find_class("GREEN") == (1, 1)
    assert two.find_class("square/Red") == (1, 0)
    with pytest.raises(DatasetError, match=r"Several tasks have a class 'red' \(round, square\)"):
        two.find_class("red")
    with pytest.raises(DatasetError, match="did you mean 'green'"):
        two.find_class("gren")


def test_rows_have_a_length_and_images_have_none(tmp_path):
    images = [(tmp_path / name / "0.png", name) for name in "ab"]
    for path, _ in images:
        picture(path)
    assert sequence(("one", ("a", "b"))).row_length == 3
    assert ClassSequence("mine", (task_of("one", images, images, tmp_path),)).row_length is None


def test_the_fingerprint_follows_content_not_place(tmp_path):
    def drawn(root, colour):
        images = [(root / name / "0.bmp", name) for name in "ab"]
        for path, _ in images:
            picture(path, colour)
        return ClassSequence("mine", (task_of("one", images, images, root),))

    here, there = drawn(tmp_path / "here", (1, 2, 3)), drawn(tmp_path / "there", (1, 2, 3))
    assert here.fingerprint == there.fingerprint
    assert here.select(["one"]).fingerprint == here.fingerprint
    gone = drawn(tmp_path / "gone", (1, 2, 3))
    (tmp_path / "gone" / "a" / "0.bmp").unlink()
    with pytest.raises(DatasetError, match="no longer exists"):
        _ = gone.fingerprint


def test_a_task_needs_two_classes_with_examples_on_both_sides():
    with pytest.raises(DatasetError, match="at least two"):
        ClassTask("one", ("a",), rows(), rows())
    with pytest.raises(DatasetError, match="'b' of the task 'one' has no test images"):
        ClassTask("one", ("a", "b"), rows(), rows().of_class(0))


def test_a_limit_takes_classes_evenly_spread():
    images = [(Path(f"{letter}.png"), letter) for letter in "abcdef"]
    assert task_of("one", images, images, Path(), 3).classes == ("a", "c", "e")
