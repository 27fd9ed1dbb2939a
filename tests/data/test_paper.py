import numpy as np
import pytest
from scipy.io import savemat

from factlearn.data.paper import SETS, PaperConfig, open_paper
from factlearn.errors import DatasetError
from tests.data.conftest import picture


def task_of(root, name):
    (task,) = open_paper(PaperConfig(root=root, tasks=[name]), seed=0).tasks
    return task


def labelled(task):
    return {side: sorted((path.name, task.classes[label]) for path, label in zip(part.paths, part.labels, strict=True))
            for side, part in (("train", task.train), ("test", task.test))}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_a_set_that_is_not_there_says_where_to_get_it(name, tmp_path):
    with pytest.raises(DatasetError, match=f"'{name}' is not in .*; to get it: "):
        task_of(tmp_path, name)


def test_any_set_can_be_a_folder_tree(tmp_path):
    for side in ("train", "test"):
        for label in ("a", "b"):
            picture(tmp_path / "svhn" / side / label / "0.png")
    assert task_of(tmp_path, "svhn").classes == ("a", "b")


def test_scenes_are_read_from_their_lists(tmp_path):
    root = tmp_path / "scenes"
    names = ["bar/1.jpg", "gym/1.jpg", "bar/2.jpg", "gym/2.jpg"]
    for name in names:
        picture(root / "Images" / name)
    (root / "TrainImages.txt").write_text("\n".join(names[:2]))
    (root / "TestImages.txt").write_text("\n".join(names[2:]))
    task = task_of(tmp_path, "scenes")
    assert labelled(task) == {
        "train": [("1.jpg", "bar"), ("1.jpg", "gym")],
        "test": [("2.jpg", "bar"), ("2.jpg", "gym")],
    }
    (root / "Images" / "gym" / "2.jpg").unlink()
    with pytest.raises(DatasetError, match=r"lacks the image .*2\.jpg"):
        task_of(tmp_path, "scenes")


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
    task = task_of(tmp_path, "birds")
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
    task = task_of(tmp_path, "actions")
    assert labelled(task)["train"] == [("a.jpg", "running"), ("b.jpg", "riding")]


def test_letters_leave_the_digits_out(tmp_path):
    for number in range(1, 63):
        for image in range(3):
            picture(tmp_path / "letters/English/Img/GoodImg/Bmp" / f"Sample{number:03d}" / f"{image}.png")
    task = task_of(tmp_path, "letters")
    assert len(task.classes) == 52
    assert {"upper A", "lower z"} <= set(task.classes)


def test_aircraft_are_read_through_torchvision(tmp_path):
    data = tmp_path / "aircraft" / "fgvc-aircraft-2013b" / "data"
    for name in "abcd":
        picture(data / "images" / f"{name}.jpg")
    (data / "variants.txt").write_text("707\nA320\n")
    (data / "images_variant_trainval.txt").write_text("a 707\nb A320\n")
    (data / "images_variant_test.txt").write_text("c 707\nd A320\n")
    task = task_of(tmp_path, "aircraft")
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
    task = task_of(tmp_path, "cars")
    assert labelled(task)["train"] == [("0.jpg", "Audi"), ("1.jpg", "Fiat")]


def test_a_damaged_set_says_so(tmp_path):
    (tmp_path / "flowers" / "flowers-102").mkdir(parents=True)
    (tmp_path / "flowers" / "flowers-102" / "setid.mat").write_bytes(b"x")
    with pytest.raises(DatasetError, match="incomplete"):
        task_of(tmp_path, "flowers")
