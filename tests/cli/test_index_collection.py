"""A collection that grows, moves, shrinks and breaks, handled by the commands a user types."""

import json
import shutil

import pytest

from factlearn.retrieval import FactIndex
from tests.cli.commands import factlearn, output_of
from tests.conftest import draw


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    (folder / "trip").mkdir(parents=True)
    for seed in range(3):
        draw(seed, 300 + seed, folder / f"{seed}.png")
    draw(3, 310, folder / "trip" / "3.png")
    return folder


@pytest.fixture
def index(place, photos, tmp_path):
    output_of("index", "build", place / "run", "--images", photos, "--out", "ix", cwd=tmp_path)
    return tmp_path / "ix"


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


def test_row_11_adding_nothing_but_unreadable_files_succeeds(index, photos, tmp_path):
    (photos / "bad.jpg").write_bytes(b"corrupt")
    done = factlearn("index", "add", "ix", "photos", "--skip-unreadable", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "0 new, 0 changed, 4 unchanged, 0 moved, 0 duplicates, 1 skipped; 4 images" in done.stdout
    assert "Skipped: " in done.stderr
    assert "bad.jpg" in done.stderr


def test_row_12_all_unreadable_images_are_listed_with_the_way_on(place, index, photos, tmp_path):
    for number in range(25):
        (photos / f"bad{number:02d}.jpg").write_bytes(b"corrupt")
    whole = (photos / "0.png").read_bytes()
    (photos / "trip" / "cut.png").write_bytes(whole[: len(whole) // 2])
    for command in (("build", place / "run", "--images", "photos", "--out", "other"), ("add", "ix", "photos")):
        done = factlearn("index", *command, cwd=tmp_path)
        assert done.returncode == 2
        assert "26 of" in done.stderr
        assert "--skip-unreadable" in done.stderr
        assert done.stderr.count("bad") == 20
        assert "and 6 more" in done.stderr
    assert not (tmp_path / "other").exists()
    assert len(FactIndex.open(index)) == 4
    built = output_of(
        "index", "build", place / "run", "--images", "photos", "--out", "other", "--skip-unreadable", cwd=tmp_path
    )
    assert "4 images" in built


def test_building_from_unreadable_images_alone_lists_them(place, tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.jpg").write_bytes(b"corrupt")
    done = factlearn(
        "index", "build", place / "run", "--images", "bad", "--out", "other", "--skip-unreadable", cwd=tmp_path
    )
    assert done.returncode == 2
    assert "a.jpg" in done.stderr


def test_row_13_a_moved_folder_is_noticed_and_relocated(index, photos, tmp_path):
    photos.rename(tmp_path / "archive")
    done = factlearn("index", "refresh", "ix", cwd=tmp_path)
    assert done.returncode == 0
    assert "0 embedded again, 0 kept, 4 missing" in done.stdout
    assert f"factlearn index relocate ix {photos} NEW" in done.stderr
    before = FactIndex.open(index)
    assert "4 relocated, 0 missing, 0 different" in output_of(
        "index", "relocate", "ix", "photos", "archive", cwd=tmp_path
    )
    after = FactIndex.open(index)
    assert (sorted(after.ids), len(after)) == (sorted(before.ids), 4)
    assert all(path.is_file() for path in after.paths)
    assert {hit.id: hit.score for hit in after.query("<tree>")} == {hit.id: hit.score for hit in before.query("<tree>")}
    assert "4 kept, 0 missing" in output_of("index", "refresh", "ix", cwd=tmp_path)


def test_row_13_adding_a_moved_folder_does_not_double_the_index(index, photos, tmp_path):
    photos.rename(tmp_path / "archive")
    draw(5, 350, tmp_path / "archive" / "new.png")
    added = output_of("index", "add", "ix", "archive", cwd=tmp_path)
    assert "1 new, 0 changed, 0 unchanged, 4 moved, 0 duplicates, 0 skipped; 5 images" in added
    assert all(path.is_file() for path in FactIndex.open(index).paths)


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


def test_row_14_a_run_that_moved_with_its_index_is_found_and_otherwise_asked_for(place, photos, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(place / "run", old / "runs" / "mas")
    output_of("index", "build", "runs/mas", "--images", photos, "--out", "indexes/ix", cwd=old)
    new = tmp_path / "new"
    old.rename(new)
    draw(4, 360, photos / "new.png")
    assert "1 new" in output_of("index", "add", "indexes/ix", photos, cwd=new)
    output_of("query", "indexes/ix", "--image", photos / "0.png", cwd=new)
    (new / "runs" / "mas").rename(tmp_path / "elsewhere")
    lost = factlearn("index", "add", "indexes/ix", photos, cwd=new)
    assert lost.returncode == 2
    assert "--run RUN" in lost.stderr
    assert "5 unchanged" in output_of("index", "add", "indexes/ix", photos, "--run", tmp_path / "elsewhere", cwd=new)


@pytest.mark.parametrize("delimiter", [";", "\t", ","])
def test_row_16_any_usual_table_with_windows_paths_is_indexed(place, photos, tmp_path, delimiter):
    rows = [("path", "split", "subject", "predicate", "object"), ("trip\\3.png", "test", "dog", "jumping", "")]
    text = "\r\n".join(delimiter.join(row) for row in rows)
    (photos / "list.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    output_of("index", "build", place / "run", "--images", photos / "list.csv", "--out", "ix", cwd=tmp_path)
    (item,) = FactIndex.open(tmp_path / "ix").items()
    assert (item["id"], item["fact"], item["path"]) == ("trip/3.png", "<dog, jumping>", str(photos / "trip" / "3.png"))


def test_row_20_building_onto_an_index_is_refused_before_embedding(place, index, photos, tmp_path):
    command = ("index", "build", place / "run", "--images", photos, "--out", "ix")
    done = factlearn(*command, cwd=tmp_path)
    assert done.returncode == 2
    assert "--overwrite" in done.stderr
    assert "embedding" not in done.stderr
    assert "4 images" in output_of(*command, "--overwrite", cwd=tmp_path)


def test_row_6_one_refresh_finds_facts_that_were_learned_since(place, manifest, tmp_path):
    whole, young = place / "run", tmp_path / "run"
    shutil.copytree(whole, young)
    shutil.rmtree(young / "stages" / "2")
    tasks = json.loads((whole / "tasks.json").read_text())
    later = set(tasks["tasks"][1]["facts"])
    (young / "tasks.json").write_text(json.dumps({**tasks, "tasks": tasks["tasks"][:1]}))
    output_of("index", "build", "run", "--images", manifest, "--out", "ix", cwd=tmp_path)
    assert not later & {str(fact) for fact in FactIndex.open(tmp_path / "ix").facts}
    shutil.copytree(whole / "stages" / "2", young / "stages" / "2")
    shutil.copy(whole / "tasks.json", young / "tasks.json")
    drift = json.loads(output_of("index", "drift", "ix", "--json", cwd=tmp_path))
    assert later <= {group["fact"] for group in drift["groups"]}
    output_of("index", "refresh", "ix", cwd=tmp_path)
    index = FactIndex.open(tmp_path / "ix")
    assert later <= {str(fact) for fact in index.facts}
    gaining = {group["fact"] for group in drift["groups"] if group["gains"]}
    assert gaining & later
    assert {item["fact"] for item in index.items() if item["model"] == index.model} == gaining
    assert " 0 embedded again" in output_of("index", "refresh", "ix", cwd=tmp_path)
