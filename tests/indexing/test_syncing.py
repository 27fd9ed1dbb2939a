"""An index kept equal to a folder that changes in every way."""

import json
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from factlearn.errors import DatasetError, FactIndexError, ImageError
from factlearn.files import sha256_file
from factlearn.images import find_images, load_image
from factlearn.indexing import building, syncing
from factlearn.indexing.building import build_index
from factlearn.indexing.syncing import sync
from factlearn.retrieval import FactIndex
from tests.cli.commands import output_of
from tests.conftest import draw


@pytest.fixture
def index(light_run, tmp_path, pictures):
    return build_index(light_run, str(pictures), tmp_path / "index")


def readable(path):
    try:
        load_image(path)
    except ImageError:
        return False
    return True


def check_equal(index, folder, done):
    """The index holds each readable content of the folder once, under a path that has it, and the counts add up."""
    contents = {path: sha256_file(path) for path in find_images(folder) if readable(path)}
    items = index.items()
    assert {item["path"]: item["sha256"] for item in items}.items() <= {str(p): c for p, c in contents.items()}.items()
    assert sorted(item["sha256"] for item in items) == sorted(set(contents.values()))
    assert len({item["id"] for item in items}) == len(items) == len(index) == done.images
    assert all(folder / item["id"] == Path(item["path"]) for item in items)
    assert done.indexed + done.skipped + done.failed == done.found == len(find_images(folder))
    assert done.indexed == len(contents)
    assert done.indexed - done.duplicates == len(index)


def test_new_images_are_added_changed_ones_updated_and_gone_ones_removed(index, pictures):
    draw(5, 70, pictures / "0.png")
    draw(5, 71, pictures / "new.png")
    (pictures / "1.png").unlink()
    (pictures / "2.png").write_bytes(b"no picture")
    done = sync(index, pictures)
    assert (done.new, done.changed, done.removed, done.skipped, done.unchanged) == (1, 1, 2, 1, 2)
    check_equal(index, pictures, done)
    again = sync(index, pictures)
    assert (again.new, again.changed, again.removed, again.skipped, again.unchanged) == (0, 0, 0, 1, 4)


def test_a_renamed_file_keeps_its_vector_and_is_not_embedded_again(index, pictures, monkeypatch):
    before = dict(zip(index.ids, index.vectors, strict=True))
    monkeypatch.setattr(syncing, "add_samples", None)  # any use of it would fail
    (pictures / "0.png").rename(pictures / "more" / "renamed.png")
    (pictures / "1.png").rename(pictures / "swap.png")  # two that change places
    (pictures / "2.png").rename(pictures / "1.png")
    (pictures / "swap.png").rename(pictures / "2.png")
    done = sync(index, pictures)
    assert (done.moved, done.unchanged, done.removed) == (3, 2, 0)
    check_equal(index, pictures, done)
    after = dict(zip(index.ids, index.vectors, strict=True))
    assert set(after) == {"1.png", "2.png", "3.png", "more/4.png", "more/renamed.png"}
    for new, old in (("more/renamed.png", "0.png"), ("1.png", "2.png"), ("2.png", "1.png")):
        np.testing.assert_array_equal(after[new], before[old])


def test_a_copy_is_counted_and_takes_over_when_the_original_goes(index, pictures):
    (pictures / "copy.png").write_bytes((pictures / "0.png").read_bytes())
    done = sync(index, pictures)
    assert (done.duplicates, done.new, done.images) == (1, 0, 5)
    (pictures / "0.png").unlink()
    done = sync(index, pictures)
    assert (done.duplicates, done.moved, done.images) == (0, 1, 5)
    assert "copy.png" in index.ids
    check_equal(index, pictures, done)


def test_labels_follow_a_renamed_file(light_run, tmp_path, manifest):
    folder = tmp_path / "labelled"
    folder.mkdir()
    for name in ("facts.csv", *(f"{number}-{seed}.png" for number in range(6) for seed in range(9))):
        (folder / name).write_bytes((manifest.parent / name).read_bytes())
    index = build_index(light_run, str(folder / "facts.csv"), tmp_path / "index")
    (folder / "0-0.png").rename(folder / "ride.png")
    done = sync(index, folder)
    assert (done.moved, done.unchanged) == (1, 53)
    (item,) = index.items("id = 'ride.png'")
    assert (item["fact"], item["metadata.topic"]) == ("<person, riding, bike>", "sports")


def test_images_from_elsewhere_stay(light_run, tmp_path, pictures):
    other = tmp_path / "other"
    other.mkdir()
    draw(1, 90, other / "0.png")
    index = build_index(light_run, str(pictures), tmp_path / "index")
    sync(index, other)
    assert len(index) == 6
    (pictures / "3.png").unlink()
    assert sync(index, other).removed == 0
    (other / "0.png").unlink()
    draw(1, 91, other / "1.png")
    assert sync(index, other).removed == 1
    assert len(index) == 6


def test_a_file_that_cannot_be_read_fails_alone(index, pictures):
    (pictures / "dangling.png").symlink_to(pictures / "nowhere.png")
    draw(5, 71, pictures / "new.png")
    done = sync(index, pictures)
    assert (done.failed, done.new, done.found) == (1, 1, 7)


def test_a_folder_that_is_gone_or_empty_removes_nothing(index, pictures, tmp_path):
    pictures.rename(tmp_path / "away")
    with pytest.raises(DatasetError, match="does not exist"):
        sync(index, pictures)
    pictures.mkdir()  # such as the place of a disk that is not mounted
    with pytest.raises(DatasetError, match="no images"):
        sync(index, pictures)
    (pictures / "0.png").write_bytes(b"")
    with pytest.raises(FactIndexError, match="nothing was removed"):
        sync(index, pictures)
    assert len(FactIndex.open(index.path)) == 5


@pytest.mark.parametrize("step", ["rewrite_items", "add_samples", "_remove"])
@pytest.mark.parametrize("before", [True, False])
def test_a_sync_that_is_killed_between_commits_is_finished_by_the_next(index, pictures, monkeypatch, step, before):
    (pictures / "0.png").rename(pictures / "renamed.png")
    draw(5, 70, pictures / "0.png")
    draw(5, 71, pictures / "new.png")
    (pictures / "1.png").unlink()
    real = getattr(syncing, step)

    def killed(*arguments, **options):
        if not before:
            real(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(syncing, step, killed)
        with pytest.raises(KeyboardInterrupt):
            sync(index, pictures)
    reopened = FactIndex.open(index.path)
    assert reopened.verify() == []
    check_equal(reopened, pictures, sync(reopened, pictures))


def change(folder, random_, number):
    """One random change of a folder."""
    files = find_images(folder)
    file = random_.choice(files)
    kind = random_.choice(["add", "edit", "rename", "delete", "corrupt", "truncate", "duplicate", "swap", "touch"])
    place = folder / random_.choice(["", "a", "a/b"]) / f"{number}.png"
    place.parent.mkdir(parents=True, exist_ok=True)
    if kind == "add" or len([path for path in files if readable(path)]) < 4:
        draw(number % 6, 1000 + number, place)
    elif kind == "edit":
        draw(number % 6, 2000 + number, file)
    elif kind == "rename":
        file.rename(place)
    elif kind == "delete":
        file.unlink()
    elif kind == "corrupt":
        file.write_bytes(b"no picture %d" % number)
    elif kind == "truncate":
        file.write_bytes(file.read_bytes()[:200])
    elif kind == "duplicate":
        place.write_bytes(file.read_bytes())
    elif kind == "swap":
        other = random_.choice(files)
        one, two = file.read_bytes(), other.read_bytes()
        file.write_bytes(two)
        other.write_bytes(one)
    else:
        file.touch()


def replay(index, pictures, seed, rounds, follow=sync):
    random_ = random.Random(seed)
    for number in range(rounds):
        for part in range(random_.randint(1, 3)):
            change(pictures, random_, 10 * number + part)
        done = follow(index, pictures)
        check_equal(index, pictures, done)
    assert index.verify() == []


def sync_by_command(index, folder):
    """`factlearn index sync`, as a nightly job runs it; any exit code but 0 fails."""
    counts = json.loads(output_of("index", "sync", index.path, folder, "--json", cwd=folder.parent))
    index.reload()
    return SimpleNamespace(**counts)


def test_the_index_equals_a_folder_that_changes_at_random_100_times(index, pictures):
    replay(index, pictures, 0, 100, sync_by_command)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_the_index_equals_a_folder_that_changes_at_random_many_times(index, pictures, seed):
    replay(index, pictures, seed, 300)


def test_committing_after_every_image_changes_nothing(index, pictures, monkeypatch):
    monkeypatch.setattr(building, "_COMMIT_EVERY", 1)
    for seed in range(3):
        draw(5, 70 + seed, pictures / f"new{seed}.png")
    check_equal(index, pictures, sync(index, pictures))
