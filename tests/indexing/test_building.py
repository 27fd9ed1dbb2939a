"""Indexes that a run's model fills, follows and repairs."""

import shutil

import numpy as np
import pytest
from PIL import Image

from factlearn.errors import FactIndexError, ImageError, RunError
from factlearn.indexing.building import add_images, build_index, embed_one
from factlearn.indexing.refreshing import measure, refresh
from factlearn.learning.config import parse_config
from factlearn.learning.runs import Run
from factlearn.learning.training import train
from factlearn.retrieval import FactIndex
from factlearn.retrieval.copying import copy
from tests.conftest import draw


def test_only_new_and_changed_images_are_embedded(run, tmp_path, pictures):
    index = build_index(run, str(pictures), tmp_path / "index")
    assert len(index) == 5
    before = dict(zip(index.ids, index.vectors, strict=True))
    unchanged = add_images(index, str(pictures))
    assert (unchanged.new, unchanged.changed, unchanged.unchanged) == ([], [], 5)

    draw(5, 70, pictures / "0.png")
    draw(5, 71, pictures / "5.png")
    (pictures / "1.png").touch()  # another time, the same content
    report = add_images(index, str(pictures))
    assert (report.new, report.changed, report.unchanged) == (["5.png"], ["0.png"], 4)
    after = dict(zip(index.ids, index.vectors, strict=True))
    assert len(after) == len(index) == 6
    assert not np.allclose(after["0.png"], before["0.png"])
    np.testing.assert_array_equal(after["1.png"], before["1.png"])
    np.testing.assert_allclose(after["5.png"], embed_one(index, pictures / "5.png"), rtol=1e-4, atol=1e-5)


def test_images_of_equal_name_in_another_folder_do_not_replace_each_other(run, tmp_path, pictures):
    index = build_index(run, str(pictures), tmp_path / "index")
    other = tmp_path / "others"
    shutil.copytree(pictures, other)
    draw(3, 99, other / "0.png")
    report = add_images(index, str(other))
    assert report.new == ["others/0.png"]
    assert report.duplicates == 4  # the same content is the same image
    assert len(index) == 6


def test_sharing_the_work_among_processes_changes_nothing(run, tmp_path, pictures):
    alone = build_index(run, str(pictures), tmp_path / "alone")
    shared = build_index(run, str(pictures), tmp_path / "shared", processes=2, batch_size=2)
    assert shared.ids == alone.ids
    np.testing.assert_allclose(shared.vectors, alone.vectors, rtol=1e-4, atol=1e-5)


def test_an_unreadable_image_stops_adding_or_is_skipped_and_leaves_the_index_as_it_was(run, tmp_path, pictures):
    index = build_index(run, str(pictures), tmp_path / "index")
    (pictures / "broken.png").write_bytes(b"no picture")
    draw(5, 80, pictures / "whole.png")
    with pytest.raises(ImageError, match=r"broken\.png"):
        add_images(index, str(pictures))
    assert len(FactIndex.open(tmp_path / "index")) == 5
    report = add_images(index, str(pictures), skip_unreadable=True)
    assert report.skipped == 1
    assert "whole.png" in index.ids
    assert "broken.png" not in index.ids


def test_a_model_of_another_line_is_refused(run, tmp_path, pictures):
    index = build_index(run, str(pictures), tmp_path / "index")
    other = train(run.config.changed(seed=2), tmp_path / "other", stop_after=1)  # the same language, other weights
    with pytest.raises(FactIndexError, match="not comparable"):
        add_images(index, str(pictures), other)
    with pytest.raises(FactIndexError, match="not comparable"):
        refresh(tmp_path / "index", other)


def test_a_run_of_classes_cannot_be_indexed(digits_config, tmp_path, pictures):
    run = train(parse_config(digits_config, "test"), tmp_path / "digits", stop_after=1)
    with pytest.raises(RunError, match="learned classes; fact vectors need a run that learned facts"):
        Run.of_facts(run.folder)
    with pytest.raises(RunError, match="learned classes"):
        build_index(run, str(pictures), tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_vectors_of_two_versions_live_side_by_side_and_are_told_apart(run, tmp_path, pictures):
    index = build_index(run, str(pictures), tmp_path / "index", stage=1)
    draw(5, 90, pictures / "late.png")
    add_images(index, str(pictures))
    models = [item["model"] for item in index.items()]
    assert len(set(models)) == len(index.models) == 2
    assert [entry.stage for entry in index.models.values()] == [1, 2]
    newest = index.query("<tree>", k=10, where=f"model = '{index.model}'")
    assert [hit.id for hit in newest] == ["late.png"]


def test_refreshing_all_gives_the_index_that_the_newest_model_would_have_built(run, tmp_path, manifest):
    build_index(run, str(manifest), tmp_path / "index", stage=1)
    expected = build_index(run, str(manifest), tmp_path / "expected", stage=2)
    done = refresh(tmp_path / "index", policy="all")
    assert done.embedded == len(expected)
    index = FactIndex.open(tmp_path / "index")
    assert index.query("<person, riding, bike>") == expected.query("<person, riding, bike>")
    assert list(index.models) == list(expected.models)
    assert refresh(tmp_path / "index", policy="all").embedded == 0


def test_drift_and_refresh_choose_the_same_images_in_every_store(run, tmp_path, manifest):
    pytest.importorskip("milvus_lite")
    address = f"milvus:{tmp_path}/images.db/pictures"
    index = build_index(run, str(manifest), tmp_path / "index", stage=1)
    index.remove(index.ids[:30:3])
    add_images(index, str(manifest), run, stage=1)  # now at the end
    copies = [copy(index, address), index]
    assert copies[0].ids != copies[1].ids
    assert sorted(copies[0].ids) == sorted(copies[1].ids)
    drifts = [measure(each, run, each=2).to_json() for each in copies]
    assert drifts[0] == drifts[1]
    assert refresh(address, run, each=2) == refresh(tmp_path / "index", run, each=2)
    models = [{item["id"]: item["model"] for item in FactIndex.open(each.path).items()} for each in copies]
    assert models[0] == models[1]


def test_drift_guided_refresh_embeds_the_facts_that_gain_and_no_others(run, tmp_path, manifest):
    index = build_index(run, str(manifest), tmp_path / "index", stage=1)
    drift = measure(index, each=100)  # every image is looked at
    learned_later = {str(fact) for fact in run.tasks().tasks[1].facts}
    assert learned_later & {str(group.fact) for group in drift.groups if group.gains}
    assert drift.map_guided is not None
    assert drift.map_guided >= max(drift.map_before, drift.map_after) - 0.05
    done = refresh(tmp_path / "index", each=100)
    assert done.embedded == drift.gaining
    assert done.kept == len(index) - drift.gaining
    refreshed = FactIndex.open(tmp_path / "index")
    gaining = {group.fact for group in drift.groups if group.gains}
    for item in refreshed.items():
        new = item["model"] == refreshed.model
        assert new == (str(item["fact"]) in {str(fact) for fact in gaining})


@pytest.mark.parametrize("damage", ["flip", "cut", "rows gone"])
def test_refresh_repairs_a_damaged_segment_from_its_images(run, tmp_path, manifest, damage):
    index = build_index(run, str(manifest), tmp_path / "index")
    expected = index.query("<person, riding, bike>", k=100)
    (file,) = (tmp_path / "index").glob("segments/*/rows.npy")
    content = bytearray(file.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif damage == "cut":
        file.write_bytes(content[: len(content) // 2])
    else:
        file.unlink()
    assert FactIndex.open(tmp_path / "index", verify=False) if damage == "flip" else True
    done = refresh(tmp_path / "index", policy="repair")
    assert done.repaired == {"flip": 1, "cut": done.repaired, "rows gone": len(expected)}[damage]
    repaired = FactIndex.open(tmp_path / "index")
    assert repaired.verify() == []
    hits = repaired.query("<person, riding, bike>", k=100)
    assert [hit.id for hit in hits] == [hit.id for hit in expected]
    assert [hit.metadata for hit in hits] == [hit.metadata for hit in expected]


def test_refresh_restores_a_damaged_manifest_from_its_copy(run, tmp_path, manifest):
    index = build_index(run, str(manifest), tmp_path / "index")
    expected = index.query("<tree>")
    (tmp_path / "index" / "index.json").write_text("{")
    with pytest.raises(FactIndexError, match="refresh"):
        FactIndex.open(tmp_path / "index")
    refresh(tmp_path / "index", policy="repair")
    assert FactIndex.open(tmp_path / "index").query("<tree>") == expected


def test_an_image_that_is_gone_is_named_and_its_old_vector_kept(run, tmp_path, pictures):
    build_index(run, str(pictures), tmp_path / "index", stage=1)
    (pictures / "0.png").unlink()
    done = refresh(tmp_path / "index", policy="all")
    assert done.missing == ["0.png"]
    assert done.embedded == 4
    assert len(FactIndex.open(tmp_path / "index")) == 5


def test_similar_images_and_shown_facts_of_a_picture(run, tmp_path, manifest):
    index = build_index(run, str(manifest), tmp_path / "index")
    path = manifest.parent / "0-0.png"
    copy = tmp_path / "copy.png"
    Image.open(path).save(copy)
    vector = embed_one(index, copy)
    assert index.similar(vector, k=1)[0].path == path
    shown = index.facts_of(vector)
    assert [fact.score for fact in shown] == sorted((fact.score for fact in shown), reverse=True)
    with pytest.raises(ImageError):
        embed_one(index, manifest)
