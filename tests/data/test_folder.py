from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factlearn.data.folder import FolderConfig, open_folder, split_by_name
from factlearn.errors import DatasetError
from tests.data.conftest import picture


def sequence_of(root, **options):
    return open_folder(FolderConfig(root=root, **options), seed=0)


@pytest.mark.parametrize("side", ["test", "val", "valid"])
def test_a_folder_that_is_split_is_taken_as_it_is(tmp_path, side):
    for shape in ("round", "square"):
        for colour in ("blue", "green", "red"):
            for name in ("1", "2"):
                picture(tmp_path / shape / "train" / colour / f"{name}.png")
            picture(tmp_path / shape / side / colour / "3.png")
    sequence = sequence_of(tmp_path)
    assert [task.name for task in sequence.tasks] == ["round", "square"]
    assert [len(part) for task in sequence.tasks for part in (task.train, task.test)] == [6, 3, 6, 3]
    assert sequence.tasks[0].classes == ("blue", "green", "red")
    assert sequence_of(tmp_path, tasks=["square", "round"]).tasks[0].name == "square"
    assert sequence_of(tmp_path, classes=2).tasks[0].classes == ("blue", "green")
    few = sequence_of(tmp_path, images=1).tasks[0]
    assert [path.stem for path in few.train.paths] == ["1", "1", "1"]
    assert few.train.labels.tolist() == [0, 1, 2]
    assert len(few.test) == 3


def test_the_test_share_of_each_class_is_set_aside(tmp_path):
    for colour in ("blue", "red"):
        for number in range(10):
            picture(tmp_path / "round" / colour / f"{number}.png")
    (task,) = sequence_of(tmp_path, test_share=0.2).tasks
    assert task.test.labels.tolist() == [0, 0, 1, 1]
    assert len(task.train) == 16


@given(st.integers(2, 20), st.floats(0.01, 0.99))
def test_a_class_has_images_on_both_sides_whatever_the_share(count, share):
    images = [(Path(f"/x/a/{number}.png"), "a") for number in range(count)]
    train, test = split_by_name(images, Path("/x"), share)
    assert train
    assert test
    assert sorted(train + test) == sorted(images)
    again = split_by_name(images[::-1], Path("/x"), share)
    assert {p for p, _ in again[1]} == {p for p, _ in test}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda root: None, "does not exist"),
        (lambda root: root.touch(), "is a file"),
        (lambda root: root.mkdir(), "holds no folders"),
        (lambda root: (root / "task" / "class").mkdir(parents=True), "holds no images"),
        (lambda root: picture(root / "task" / "class" / "a.png"), "has one image"),
        (lambda root: [picture(root / "t" / "a" / f"{n}.png") for n in range(2)], "at least two"),
    ],
)
def test_folders_without_tasks_classes_or_images_are_refused(make, message, tmp_path):
    make(tmp_path / "root")
    with pytest.raises(DatasetError, match=message):
        sequence_of(tmp_path / "root")


def test_a_class_on_one_side_only_is_refused(tmp_path):
    for side in ("train", "test"):
        picture(tmp_path / "t" / side / "a" / "0.png")
    picture(tmp_path / "t" / "train" / "b" / "0.png")
    with pytest.raises(DatasetError, match=r"'b' has no images in .*test"):
        sequence_of(tmp_path)
