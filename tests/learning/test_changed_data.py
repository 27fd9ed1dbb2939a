"""A run survives changes of its collection: it goes on, and says in one line what changed."""

import json
import shutil

import numpy as np
import pytest

from factlearn.errors import RunError
from factlearn.learning.facts import test_vectors as vectors_of
from factlearn.learning.runs import Run
from factlearn.learning.training import learn_more
from tests.learning.growing import write_manifest
from tests.learning.helpers import assert_same_run, learn


@pytest.fixture
def own(config, tmp_path):
    """A config of four facts whose photos may be changed."""
    manifest = write_manifest(tmp_path / "pictures", "facts.csv", range(4))
    return {**config, "data": {"source": "manifest", "manifest": str(manifest)}}


def train_photo(run, task):
    """The first training photo of a task."""
    facts = run.tasks().tasks[task].facts
    return next(sample.path for sample in run.data.samples if sample.fact in facts and sample.split == "train")


def test_a_row_appended_and_a_test_photo_deleted_are_reported_in_one_line(own, tmp_path, capsys):
    run = learn(own, tmp_path / "run", training__epochs=1, stop_after=1)
    photos = tmp_path / "pictures"
    shutil.copy(photos / "0-0.png", photos / "more.png")
    with open(photos / "facts.csv", "a") as stream:
        stream.write("more.png,test,person,jumping,\n")
    (photos / "0-8.png").unlink()
    shutil.copy(photos / "1-0.png", photos / "1-8.png")
    capsys.readouterr()
    learned = learn_more(Run.open(run.folder))
    said = capsys.readouterr().err
    assert said.count("has changed since") == 1
    assert "1 new row ignored, 1 photo gone, 1 photo edited." in said
    assert learned.finished_stages() == 2
    assert learned.result().final.exact.whole.images == 11
    assert learned.result(fresh=True).final.exact.whole.images == 11
    assert len(vectors_of(learned, 2)) == 12
    assert np.array_equal(vectors_of(learned, 2)[2], vectors_of(learned, 1)[2])  # the last vector of the photo gone


def test_training_photos_still_to_be_learned_from_must_be_there_unedited(own, tmp_path):
    run = learn(own, tmp_path / "run", training__epochs=1, stop_after=1)
    learned, left = train_photo(run, 0), train_photo(run, 1)
    learned.unlink()
    content = left.read_bytes()
    left.unlink()
    for _ in range(2):
        with pytest.raises(RunError, match=f"1 training photo was removed or edited .*{left.name}"):
            learn_more(Run.open(run.folder))
        left.write_bytes(learned.parent.joinpath("0-8.png").read_bytes())
    left.write_bytes(content)
    assert learn_more(Run.open(run.folder)).finished_stages() == 2


def test_a_photo_that_was_only_touched_is_not_edited(own, tmp_path, capsys):
    run = learn(own, tmp_path / "run", training__epochs=1)
    for path in (tmp_path / "pictures").glob("*.png"):
        path.touch()
    assert not Run.open(run.folder).images.changes()


def test_a_run_goes_on_when_its_collection_has_moved_with_its_manifest(own, tmp_path):
    whole = learn(own, tmp_path / "whole", training__epochs=1)
    learn(own, tmp_path / "part", training__epochs=1, stop_after=1)
    (tmp_path / "pictures").rename(tmp_path / "moved")
    config = tmp_path / "part" / "config.yaml"
    config.write_text(config.read_text().replace(str(tmp_path / "pictures"), str(tmp_path / "moved")))
    part = learn_more(Run.open(tmp_path / "part"))
    assert_same_run(whole, part)


def test_a_run_whose_whole_collection_is_gone_still_shows_its_results(own, tmp_path, capsys):
    run = learn(own, tmp_path / "run", training__epochs=1)
    before = run.result().to_json()
    shutil.rmtree(tmp_path / "pictures")
    opened = Run.open(run.folder)
    assert opened.result().to_json() == before
    assert len(opened.data) == 36
    with pytest.raises(RunError, match="None of the test photos"):
        opened.result(fresh=True)


def test_a_class_photo_gone_is_not_counted_and_a_new_one_is_ignored(shapes_config, shapes, tmp_path):
    own = tmp_path / "shapes"
    shutil.copytree(shapes, own)
    run = learn({**shapes_config, "data": {"source": "folder", "root": str(own)}}, tmp_path / "run", stop_after=1)
    (own / "round" / "test" / "red" / "5.png").unlink()
    shutil.copy(own / "round" / "test" / "red" / "6.png", own / "round" / "train" / "red" / "new.png")
    opened = Run.open(run.folder)
    assert opened.images.changes() == "1 new row ignored, 1 photo gone"
    learned = learn_more(opened)
    assert learned.outputs(2)["round.own"].tolist().count(-1) == 1
    assert learned.outputs(1)["round.own"].tolist().count(-1) == 0


def test_a_run_with_a_fingerprint_of_the_whole_data_only_works_as_before(own, tmp_path):
    run = learn(own, tmp_path / "run", training__epochs=1, stop_after=1)
    shutil.rmtree(run.folder / "data")
    assert len(Run.open(run.folder).data) == 36
    (tmp_path / "pictures" / "0-8.png").write_bytes(b"edited")
    with pytest.raises(RunError, match="has changed since it was trained"):
        _ = Run.open(run.folder).data


def test_the_record_is_a_manifest_of_absolute_paths(own, tmp_path):
    from factlearn.data.manifest import read_manifest

    run = learn(own, tmp_path / "run", training__epochs=1, stop_after=1)
    recorded = read_manifest(run.folder / "data" / "photos.jsonl")
    assert [(s.path, s.fact, s.split) for s in recorded] == [(s.path, s.fact, s.split) for s in run.data]
    assert json.loads((run.folder / "data" / "about.json").read_text())["name"] == "facts"
