from pathlib import Path

import pytest

from factlearn.data import FactDataset, Sample
from factlearn.errors import DatasetError
from factlearn.facts import Fact

DOG, CAT, RIDER = Fact("dog"), Fact("cat"), Fact("person", "riding", "bike")


def _dataset(folder: Path) -> FactDataset:
    rows = [
        ("d1", DOG, "train"),
        ("c1", CAT, "test"),
        ("r1", RIDER, "train"),
        ("u1", None, ""),
        ("d2", DOG, "test"),
    ]
    samples = []
    for name, fact, split in rows:
        (folder / name).write_bytes(b"x" * 10)
        samples.append(Sample(name, folder / name, fact, split, {"who": "me"}))
    return FactDataset("mine", tuple(samples), {"bike": "bicycle"})


def test_facts_are_distinct_and_sorted(tmp_path: Path) -> None:
    assert _dataset(tmp_path).facts == (CAT, DOG, RIDER)


def test_sides_and_facts_are_selected_in_order(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path)
    assert [sample.id for sample in dataset.of_split("train")] == ["d1", "r1"]
    assert [sample.id for sample in dataset.of_facts([CAT, DOG])] == ["d1", "c1", "d2"]
    assert len(dataset.of_split("test").of_facts([RIDER])) == 0
    assert dataset.of_split("test").aliases == {"bike": "bicycle"}


def test_an_unknown_split_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no split 'validation'"):
        _dataset(tmp_path).of_split("validation")


def test_two_samples_may_not_share_an_id(tmp_path: Path) -> None:
    sample = Sample("a", tmp_path / "a")
    with pytest.raises(DatasetError, match="two samples called 'a'"):
        FactDataset("mine", (sample, sample))


def test_the_fingerprint_follows_content_not_place(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    dataset = _dataset(here)
    assert dataset.fingerprint == _dataset(there).fingerprint
    assert dataset.fingerprint != dataset.of_split("train").fingerprint
    before = dataset.fingerprint
    (here / "d1").write_bytes(b"another picture")
    assert dataset.fingerprint != before


def test_a_vanished_picture_is_named(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path)
    (tmp_path / "c1").unlink()
    with pytest.raises(DatasetError, match="c1 cannot be read any more"):
        _ = dataset.fingerprint


def test_a_limited_dataset_keeps_facts_and_training_samples_evenly_spread(tmp_path: Path) -> None:
    facts = [Fact(name) for name in ("ant", "bee", "cow", "dog")]
    samples = [
        Sample(f"{fact} {side} {number}", tmp_path, fact, side)
        for fact in facts
        for side in ("train", "test")
        for number in range(4)
    ]
    dataset = FactDataset("animals", tuple(samples))
    assert dataset.limited(None, None) == dataset
    few = dataset.limited(2, 2)
    assert few.facts == (facts[0], facts[2])
    assert [sample.id for sample in few.of_split("train")] == [
        f"{fact} train {number}" for fact in few.facts for number in (0, 2)
    ]
    assert len(few.of_split("test")) == 8
    assert dataset.limited(9, 9) == dataset
