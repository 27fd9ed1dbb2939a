from pathlib import Path

import pytest
from PIL import Image

from factlearn.data.checking import readable
from factlearn.data.folder import folder_dataset
from factlearn.errors import DatasetError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pictures = tmp_path / "pictures"
    (pictures / "deep").mkdir(parents=True)
    for name in ("b.png", "deep/a.png"):
        Image.new("RGB", (4, 4)).save(pictures / name)
    (pictures / "cut.png").write_bytes((pictures / "b.png").read_bytes()[:40])
    return pictures


def test_unlabelled_images_are_known_by_their_path_from_the_folder(folder: Path) -> None:
    dataset = folder_dataset(folder)
    assert dataset.name == "pictures"
    assert [sample.id for sample in dataset] == ["b.png", "cut.png", "deep/a.png"]
    assert dataset.facts == ()
    assert {sample.split for sample in dataset} == {""}


def test_damaged_images_are_refused_by_name(folder: Path) -> None:
    with pytest.raises(DatasetError, match=r"1 images that cannot be used:\n.*cut\.png"):
        readable(folder_dataset(folder))


def test_damaged_images_are_left_out_by_choice(folder: Path) -> None:
    said: list[str] = []
    kept = readable(folder_dataset(folder), on_error="skip", report=said.append)
    assert [sample.id for sample in kept] == ["b.png", "deep/a.png"]
    assert len(said) == 1
    assert "cut.png" in said[0]


def test_a_dataset_of_damaged_images_alone_is_an_error(folder: Path) -> None:
    for name in ("b.png", "deep/a.png"):
        (folder / name).write_bytes(b"")
    with pytest.raises(DatasetError, match="no image that can be used"):
        readable(folder_dataset(folder), on_error="skip")
