from factlearn.data.unlabelled import folder_dataset
from tests.data.conftest import picture


def test_unlabelled_images_are_known_by_their_path_from_the_folder(tmp_path):
    for name in ("b.png", "deep/a.png"):
        picture(tmp_path / "pictures" / name)
    dataset = folder_dataset(tmp_path / "pictures")
    assert dataset.name == "pictures"
    assert [sample.id for sample in dataset] == ["b.png", "deep/a.png"]
    assert dataset.facts == ()
    assert {sample.split for sample in dataset} == {""}
