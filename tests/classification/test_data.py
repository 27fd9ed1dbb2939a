import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.io import savemat

from factlearn.assets import fetch
from factlearn.data.class_folders import class_folders, split_by_name
from factlearn.data.digits import permuted_digits, split_digits
from factlearn.data.emoji_classes import CATEGORIES, emoji_classes
from factlearn.data.paper_sets import SETS, paper_sets
from factlearn.errors import DatasetError


def picture(path, colour=(1, 2, 3)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), colour).save(path)


def labelled(task):
    return {side: sorted((path.name, task.classes[label]) for path, label in zip(part.paths, part.labels, strict=True))
            for side, part in (("train", task.train), ("test", task.test))}  # fmt: skip


# Emoji

EMOJI = {"1F600": "Smileys & Emotion", "1F62D": "Smileys & Emotion", "1F415": "Animals & Nature", "2B50": "Symbols"}


@pytest.fixture
def drawings(tmp_path, cache):
    """Vendors' drawings of two faces; the last vendor draws the crying one as the other."""
    for number, vendor in enumerate(("Appl", "Goog", "Joy", "Sams")):
        for place, code in enumerate(EMOJI):
            shared = vendor == "Sams" and code == "1F62D"
            picture(tmp_path / "in" / vendor / f"U+{code}.png", (number, 0 if shared else place, 9))
    (tmp_path / "emoji.json").write_text(
        str([{"unified": code, "category": name, "subcategory": "x"} for code, name in EMOJI.items()]).replace("'", '"')
    )
    fetch("emoji-pictures", path=tmp_path / "in")
    fetch("emoji-categories", path=tmp_path / "emoji.json")


def test_emoji_tasks_are_categories_and_the_test_is_of_other_vendors(drawings):
    (task,) = emoji_classes(["faces"]).tasks
    assert task.classes == ("grinning face", "loudly crying face")
    assert {path.parent.name for path in task.train.paths} == {"Appl", "Goog"}
    assert {path.parent.name for path in task.test.paths} == {"Joy"}  # Sams' two faces are the same pixels
    assert next(iter(CATEGORIES)) == "faces"


def test_vendors_can_be_chosen(drawings):
    (task,) = emoji_classes(["faces"], vendors=["Appl", "Goog"]).tasks
    assert {path.parent.name for path in task.test.paths} == {"Goog"}


@pytest.mark.parametrize(
    ("tasks", "message"), [(["facse"], "no task 'facse'"), (["animals"], "at least two"), (["faces"] * 2, "twice")]
)
def test_emoji_tasks_that_cannot_be_learned_are_refused(drawings, tasks, message):
    with pytest.raises(DatasetError, match=message):
        emoji_classes(tasks)


# Folders


def test_a_folder_that_is_split_is_taken_as_it_is(shapes):
    sequence = class_folders(shapes)
    assert [task.name for task in sequence.tasks] == ["round", "square"]
    assert [len(side) for task in sequence.tasks for side in (task.train, task.test)] == [15, 9, 15, 9]
    assert class_folders(shapes, ["square", "round"]).tasks[0].name == "square"
    assert sequence.find_class("square/Red") == (1, 2)


@given(st.integers(2, 20), st.floats(0.01, 0.99))
def test_a_class_has_images_on_both_sides_whatever_the_share(tmp_path_factory, count, share):
    from pathlib import Path

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
        class_folders(tmp_path / "root")


def test_a_class_on_one_side_only_is_refused(tmp_path):
    for side in ("train", "test"):
        picture(tmp_path / "t" / side / "a" / "0.png")
    picture(tmp_path / "t" / "train" / "b" / "0.png")
    with pytest.raises(DatasetError, match=r"'b' has no images in .*test"):
        class_folders(tmp_path)


# The paper's sets


@pytest.mark.parametrize("name", SETS)
def test_a_set_that_is_not_there_says_where_to_get_it(name, tmp_path):
    with pytest.raises(DatasetError, match=f"'{name}' is not in .*; to get it: "):
        paper_sets(tmp_path, [name])


def test_any_set_can_be_a_folder_tree(tmp_path):
    for side in ("train", "test"):
        for label in ("a", "b"):
            picture(tmp_path / "svhn" / side / label / "0.png")
    assert paper_sets(tmp_path, ["svhn"]).tasks[0].classes == ("a", "b")


def test_scenes_are_read_from_their_lists(tmp_path):
    root = tmp_path / "scenes"
    names = ["bar/1.jpg", "gym/1.jpg", "bar/2.jpg", "gym/2.jpg"]
    for name in names:
        picture(root / "Images" / name)
    (root / "TrainImages.txt").write_text("\n".join(names[:2]))
    (root / "TestImages.txt").write_text("\n".join(names[2:]))
    task = paper_sets(tmp_path, ["scenes"]).tasks[0]
    assert labelled(task) == {
        "train": [("1.jpg", "bar"), ("1.jpg", "gym")],
        "test": [("2.jpg", "bar"), ("2.jpg", "gym")],
    }
    (root / "Images" / "gym" / "2.jpg").unlink()
    with pytest.raises(DatasetError, match=r"lacks the image .*2\.jpg"):
        paper_sets(tmp_path, ["scenes"])


def test_birds_are_read_from_their_tables(tmp_path):
    base = tmp_path / "birds" / "CUB_200_2011"
    for number in range(1, 5):
        picture(base / "images" / f"{number}.jpg")
    tables = {
        "images": "1 1.jpg\n2 2.jpg\n3 3.jpg\n4 4.jpg",
        "image_class_labels": "1 1\n2 2\n3 1\n4 2",
        "train_test_split": "1 1\n2 1\n3 0\n4 0",
        "classes": "1 owl\n2 wren",
    }
    for name, text in tables.items():
        (base / f"{name}.txt").write_text(text)
    task = paper_sets(tmp_path, ["birds"]).tasks[0]
    assert labelled(task) == {
        "train": [("1.jpg", "owl"), ("2.jpg", "wren")],
        "test": [("3.jpg", "owl"), ("4.jpg", "wren")],
    }


def test_actions_are_images_of_one_action(tmp_path):
    base = tmp_path / "actions" / "VOCdevkit" / "VOC2012"
    lists = base / "ImageSets" / "Action"
    lists.mkdir(parents=True)
    for name in "abcde":
        picture(base / "JPEGImages" / f"{name}.jpg")
    (lists / "running_train.txt").write_text("a 1 1\nb 1 -1\ne 1 1")
    (lists / "riding_train.txt").write_text("a 1 -1\nb 1 1\ne 2 1")
    (lists / "running_val.txt").write_text("c 1 1")
    (lists / "riding_val.txt").write_text("d 1 1")
    task = paper_sets(tmp_path, ["actions"]).tasks[0]
    assert labelled(task)["train"] == [("a.jpg", "running"), ("b.jpg", "riding")]


def test_letters_leave_the_digits_out(tmp_path):
    for number in range(1, 63):
        for image in range(3):
            picture(tmp_path / "letters/English/Img/GoodImg/Bmp" / f"Sample{number:03d}" / f"{image}.png")
    task = paper_sets(tmp_path, ["letters"]).tasks[0]
    assert len(task.classes) == 52
    assert {"upper A", "lower z"} <= set(task.classes)


def test_aircraft_are_read_through_torchvision(tmp_path):
    data = tmp_path / "aircraft" / "fgvc-aircraft-2013b" / "data"
    for name in "abcd":
        picture(data / "images" / f"{name}.jpg")
    (data / "variants.txt").write_text("707\nA320\n")
    (data / "images_variant_trainval.txt").write_text("a 707\nb A320\n")
    (data / "images_variant_test.txt").write_text("c 707\nd A320\n")
    task = paper_sets(tmp_path, ["aircraft"]).tasks[0]
    assert labelled(task)["test"] == [("c.jpg", "707"), ("d.jpg", "A320")]


def test_cars_are_read_through_torchvision(tmp_path):
    base = tmp_path / "cars" / "stanford_cars"
    kind = [("fname", object), ("class", object)]
    for side, file in (
        ("train", base / "devkit" / "cars_train_annos.mat"),
        ("test", base / "cars_test_annos_withlabels.mat"),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        savemat(file, {"annotations": np.array([("0.jpg", 1), ("1.jpg", 2)], dtype=kind)})
        for name in ("0.jpg", "1.jpg"):
            picture(base / f"cars_{side}" / name)
    savemat(base / "devkit" / "cars_meta.mat", {"class_names": np.array(["Audi", "Fiat"], dtype=object)})
    task = paper_sets(tmp_path, ["cars"]).tasks[0]
    assert labelled(task)["train"] == [("0.jpg", "Audi"), ("1.jpg", "Fiat")]


def test_a_damaged_set_says_so(tmp_path):
    (tmp_path / "flowers" / "flowers-102").mkdir(parents=True)
    (tmp_path / "flowers" / "flowers-102" / "setid.mat").write_bytes(b"x")
    with pytest.raises(DatasetError, match="not complete"):
        paper_sets(tmp_path, ["flowers"])


# Digits


def test_permuted_digits_are_the_same_images_in_other_orders():
    first, second = permuted_digits(2, seed=0).tasks
    assert np.array_equal(first.train.labels, second.train.labels)
    assert not np.array_equal(first.train.values, second.train.values)
    assert np.allclose(np.sort(first.test.values, axis=1), np.sort(second.test.values, axis=1))
    assert permuted_digits(2, seed=0).fingerprint == permuted_digits(2, seed=0).fingerprint
    assert permuted_digits(2, seed=0).fingerprint != permuted_digits(2, seed=1).fingerprint


def test_split_digits_share_no_class():
    tasks = split_digits(5, seed=0).tasks
    assert [task.classes for task in tasks] == [("0", "1"), ("2", "3"), ("4", "5"), ("6", "7"), ("8", "9")]
    assert sum(len(task.train) + len(task.test) for task in tasks) == 1797
    with pytest.raises(DatasetError, match="equal size"):
        split_digits(3, seed=0)
