import pytest

from factlearn.data.checking import listed, problems_of, readable
from factlearn.data.unlabelled import folder_dataset
from factlearn.errors import DatasetError
from tests.data.conftest import picture


@pytest.fixture
def folder(tmp_path):
    for name in ("b.png", "deep/a.png"):
        picture(tmp_path / name)
    (tmp_path / "cut.png").write_bytes((tmp_path / "b.png").read_bytes()[:40])
    return tmp_path


def test_damaged_images_are_skipped_and_reported(folder):
    said = []
    kept = readable(folder_dataset(folder), said.append)
    assert [sample.id for sample in kept] == ["b.png", "deep/a.png"]
    assert len(said) == 1
    assert "cut.png" in said[0]


def test_a_dataset_of_damaged_images_alone_is_an_error(folder):
    for name in ("b.png", "deep/a.png"):
        (folder / name).write_bytes(b"")
    with pytest.raises(DatasetError, match="no usable images"):
        readable(folder_dataset(folder), lambda text: None)


def test_problems_are_found_image_by_image_and_listed_up_to_twenty(folder):
    good, cut = problems_of([folder / "b.png", folder / "cut.png"])
    assert good == ""
    assert "cut.png" in cut
    assert listed(["a", "b"]) == "\n  a\n  b"
    assert listed(["x"] * 1022).splitlines()[-1] == "  and 1,002 more"
