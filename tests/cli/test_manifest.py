"""`factlearn manifest` as users type it."""

import json

import pytest
from PIL import Image

from tests.cli.commands import factlearn, output_of

pytestmark = pytest.mark.assets


@pytest.fixture
def photos(tmp_path):
    for number, name in enumerate(("person_riding_horse", "mountain bike", "dog", "IMG_0042", "office-building")):
        for copy in range(3):
            (tmp_path / "photos" / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (40 * number, 80 * copy, 0)).save(tmp_path / "photos" / name / f"{copy}.png")
    (tmp_path / "photos" / "empty").mkdir()
    return tmp_path


def test_folder_names_become_a_manifest_that_shows_what_was_understood(photos):
    printed = output_of("manifest", "photos", cwd=photos)
    for words in ("<person, riding, horse>", "<mountain bike>", "<office building>", "rename the folder", "holds no"):
        assert words in printed
    assert "photos.csv: 12 photos of 4 facts." in printed
    lines = (photos / "photos.csv").read_text().splitlines()
    assert lines[0] == "path,subject,predicate,object"
    assert "photos/person_riding_horse/0.png,person,riding,horse" in lines
    refused = factlearn("manifest", "photos", cwd=photos)
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr
    answer = json.loads(output_of("manifest", "photos", "--overwrite", "--json", cwd=photos))
    assert (answer["photos"], answer["facts"], len(answer["folders"])) == (12, 4, 6)


def test_a_manifest_from_folders_can_be_split_into_tasks_at_once(photos):
    output_of("manifest", "photos", "--out", "lists/mine.csv", cwd=photos)
    source = "data={source: manifest, manifest: lists/mine.csv}"
    (photos / "config.yaml").write_text("learn: facts\nlanguage: {vectors: glove-6b-50d}\n")
    done = factlearn("split", "config.yaml", "--set", source, "--set", "tasks.count=2", cwd=photos)
    assert done.returncode == 0, done.stderr
    assert "has no column split: 8 photos are for training and 4" in done.stderr


def test_a_wrong_folder_is_one_sentence_and_writes_nothing(photos):
    for arguments in (["nowhere"], ["photos/empty"], ["photos", "--out", "photos"], ["photos/IMG_0042"]):
        done = factlearn("manifest", *arguments, cwd=photos)
        assert done.returncode == 2
        assert done.stderr.startswith("factlearn: ")
    assert not list(photos.glob("*.csv"))
