"""A collection that grows, moves, shrinks and breaks, handled by the commands a user types."""

import json
import shutil

import pytest

from tests.cli.commands import factlearn, output_of
from tests.conftest import draw


def test_sync_follows_the_folder_and_its_counts_add_up(index, photos, tmp_path):
    draw(4, 320, photos / "new.png")
    draw(4, 321, photos / "0.png")
    (photos / "1.png").rename(photos / "renamed.png")
    (photos / "2.png").write_bytes(b"corrupt")
    shutil.copy(photos / "renamed.png", photos / "copy.png")
    done = factlearn("index", "sync", "ix", "photos", cwd=tmp_path)
    assert done.returncode == 0
    assert (
        "6 found: 5 indexed (1 new, 1 changed, 1 moved, 1 unchanged, 1 duplicates), 1 skipped, 0 failed; "
        in done.stdout
    )
    assert "1 removed; 4 images" in done.stdout
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Skipped")]
    assert "2.png" in line
    again = json.loads(output_of("index", "sync", "ix", "photos", "--json", cwd=tmp_path))
    assert again["indexed"] + again["skipped"] + again["failed"] == again["found"] == 6
    assert (again["unchanged"], again["duplicates"], again["removed"], again["images"]) == (4, 1, 0, 4)
    assert "6 found" in output_of("index", "watch", "ix", "photos", "--once", cwd=tmp_path)


def test_watch_syncs_until_it_is_interrupted(index, photos, tmp_path, monkeypatch):
    naps = []

    def sleep(seconds):
        naps.append(seconds)
        if len(naps) == 3:
            raise KeyboardInterrupt
        draw(4, 330 + len(naps), photos / f"late{len(naps)}.png")

    monkeypatch.setattr("time.sleep", sleep)
    done = factlearn("index", "watch", "ix", "photos", "--every", 5, cwd=tmp_path)
    assert done.returncode == 130
    assert naps == [5, 5, 5]
    assert [line.split(";")[-1] for line in done.stdout.splitlines()] == [" 4 images", " 5 images", " 6 images"]


def test_building_from_unreadable_images_alone_lists_them(place, tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.jpg").write_bytes(b"corrupt")
    done = factlearn(
        "index", "build", place / "run", "--images", "bad", "--out", "other", "--skip-unreadable", cwd=tmp_path
    )
    assert done.returncode == 2
    assert "a.jpg" in done.stderr


def test_adding_another_folder_suggests_to_relocate_the_one_that_is_gone(index, photos, tmp_path):
    photos.rename(tmp_path / "archive")
    (tmp_path / "more").mkdir()
    draw(5, 350, tmp_path / "more" / "new.png")
    done = factlearn("index", "add", "ix", "more", cwd=tmp_path)
    assert f"All 4 images from {photos} are gone" in done.stderr


def test_relocating_keeps_the_paths_of_files_that_did_not_come_along(index, photos, tmp_path):
    archive = tmp_path / "archive"
    photos.rename(archive)
    (archive / "0.png").unlink()
    draw(5, 340, archive / "1.png")
    done = factlearn("index", "relocate", "ix", "photos", "archive", cwd=tmp_path)
    assert done.returncode == 0
    assert "2 relocated, 1 missing, 1 different" in done.stdout
    assert "0.png does not exist" in done.stderr
    assert "1.png has other content" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("nowhere", "photos", "no images from"),
        ("photos", "nowhere", "There is no folder"),
        ("photos", "empty", "None of the 4 images"),
    ],
)
def test_relocating_the_wrong_folder_is_refused(index, tmp_path, old, new, words):
    (tmp_path / "empty").mkdir()
    done = factlearn("index", "relocate", "ix", old, new, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
