"""Manifests made from folder names."""

import csv
import os

import pytest

from factlearn.data.folder_facts import read_folders, write_manifest
from factlearn.data.folder_names import Words, read_name
from factlearn.data.manifest import read_manifest
from factlearn.errors import DatasetError, FactError
from tests.data.conftest import picture

VERBS = {"riding", "jumping", "sitting", "drawing", "building", "racing"}
NOUNS = "person dog mountain bike horse office buildings drawings cat sofa chair photos"
RANKS = {word: rank for rank, word in enumerate([*NOUNS.split(), *sorted(VERBS), "taking", "on"])}
WORDS = Words((VERBS | {"taking"}).__contains__, {"on", "of", "with"}, RANKS.get)


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("person_riding_horse", "<person, riding, horse>"),
        ("person riding horse", "<person, riding, horse>"),
        ("Person-Riding-Horse", "<person, riding, horse>"),
        ("person_riding_a_horse_2", "<person, riding, horse>"),
        ("dog", "<dog>"),
        ("person_jumping", "<person, jumping>"),
        ("person_sitting_on_chair", "<person, sitting on, chair>"),
        ("cat on sofa", "<cat, on, sofa>"),
        ("mountain_bike", "<mountain bike>"),
        ("person_riding_mountain_bike", "<person, riding, mountain bike>"),
        ("person_riding_mountain-bike", "<person, riding, mountain bike>"),
        ("mountain-bike_racing", "<mountain bike, racing>"),
        ("office_building", "<office building>"),
        ("person_drawing", "<person, drawing>"),
        ("person_taking_photos", "<person, taking, photos>"),
        ("<person, riding, mountain bike>", "<person, riding, mountain bike>"),
    ],
)
def test_a_folder_name_is_read_as_its_fact(name, fact):
    assert str(read_name(name, WORDS)) == fact


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("IMG_0123", "does not say what the photos show"),
        ("2024-05", "does not say"),
        ("photos", "does not say"),
        ("persn_riding_hors", "'persn', 'hors' have no word vector"),
        ("a, b, c, d", "has 4 units"),
    ],
)
def test_a_name_that_is_no_fact_says_why(name, why):
    with pytest.raises(FactError, match=why):
        read_name(name, WORDS)


def rows_of(path):
    with open(path, newline="") as stream:
        return [tuple(row.values()) for row in csv.DictReader(stream)]


def test_a_manifest_of_folders_is_read_back(tmp_path):
    for name in ("person_riding_horse/a.png", "person-riding-horse/b.png", "animals/dog/c.png", "loose.png"):
        picture(tmp_path / "photos" / name)
    (tmp_path / "photos" / "cat").mkdir()
    folders = read_folders(tmp_path / "photos", WORDS)
    assert [(each.name, each.fact and str(each.fact), len(each.photos), each.problem) for each in folders] == [
        ("", None, 0, "no folder says what these photos show"),
        ("animals/dog", "<dog>", 1, ""),
        ("cat", None, 0, "holds no photos"),
        ("person-riding-horse", "<person, riding, horse>", 1, ""),
        ("person_riding_horse", "<person, riding, horse>", 1, ""),
    ]
    (tmp_path / "lists").mkdir()
    out = tmp_path / "lists" / "photos.csv"
    write_manifest(folders, out)
    assert rows_of(out)[0] == ("../photos/animals/dog/c.png", "dog", "", "")
    assert sorted(sample.split for sample in read_manifest(out, seed=0)) == ["test", "train", "train"]
    with pytest.raises(DatasetError, match="exists already; choose another --out, or replace it with --overwrite"):
        write_manifest(folders, out)
    write_manifest(folders[:2], out, overwrite=True)
    assert len(rows_of(out)) == 1
    with pytest.raises(DatasetError, match=r"ends in \.csv"):
        write_manifest(folders, tmp_path / "photos.txt")


def test_folders_train_and_test_above_or_below_are_the_split(tmp_path):
    for name in ("train/dog/a.png", "test/dog/a.png", "cat/Train/a.png", "cat/testing/b.png", "cat/c.png"):
        picture(tmp_path / "photos" / name)
    folders = read_folders(tmp_path / "photos", WORDS)
    assert [(each.name, each.count("train"), each.count("test")) for each in folders] == [("cat", 1, 1), ("dog", 1, 1)]
    assert folders[0].problem == "1 photo is in neither a train nor a test folder, unlike others; left out"
    write_manifest(folders, tmp_path / "photos.csv")
    assert {row[1] for row in rows_of(tmp_path / "photos.csv")} == {"train", "test"}
    assert len(read_manifest(tmp_path / "photos.csv").of_split("test")) == 2


def test_folders_without_a_single_fact_are_refused_with_all_reasons(tmp_path):
    picture(tmp_path / "photos" / "IMG_1" / "a.png")
    picture(tmp_path / "photos" / "zzz" / "a.png")
    with pytest.raises(DatasetError) as caught:
        read_folders(tmp_path / "photos", WORDS)
    assert "named for a fact" in str(caught.value)
    assert "IMG_1: not read as a fact" in str(caught.value)
    assert "zzz: not read as a fact: 'zzz' has no word vector; rename the folder" in str(caught.value)
    with pytest.raises(DatasetError, match="does not exist"):
        read_folders(tmp_path / "nowhere", WORDS)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_read_is_named(tmp_path):
    picture(tmp_path / "photos" / "dog" / "a.png")
    picture(tmp_path / "photos" / "cat" / "a.png")
    (tmp_path / "photos" / "cat").chmod(0)
    folders = read_folders(tmp_path / "photos", WORDS)
    (tmp_path / "photos" / "cat").chmod(0o755)
    assert (folders[0].name, folders[0].problem) == ("cat", "cannot be read: Permission denied")
