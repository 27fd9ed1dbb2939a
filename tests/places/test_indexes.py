"""Indexes of what lies in tars and in object storage: built, searched, kept in step, shown."""

import io
import zipfile

import fsspec
import numpy as np
import pytest

from factlearn.indexing.building import add_images, build_index
from factlearn.indexing.syncing import sync
from factlearn.retrieval import FactIndex
from factlearn.retrieval.sheet import contact_sheet
from factlearn.server.downloads import write_zip
from tests.indexing.conftest import light_run  # noqa: F401  (a fixture)


@pytest.fixture
def in_folder(light_run, tmp_path, shard):  # noqa: F811
    """The index of the same pictures as files."""
    import tarfile

    with tarfile.open(shard(a_png=1, b_png=2, sub__c_png=3)) as archive:
        archive.extractall(tmp_path / "files", filter="data")
    return build_index(light_run, str(tmp_path / "files"), tmp_path / "of-files")


def test_a_tar_gives_the_vectors_that_its_files_give(light_run, in_folder, shard, tmp_path):  # noqa: F811
    index = build_index(light_run, str(shard(a_png=1, b_png=2, sub__c_png=3)), tmp_path / "index")
    assert index.ids == in_folder.ids
    assert np.array_equal(index.vectors, in_folder.vectors)
    hits = index.query("<dog>")
    assert [(hit.id, hit.score) for hit in hits] == [(hit.id, hit.score) for hit in in_folder.query("<dog>")]
    assert contact_sheet(hits, tmp_path / "sheet.png", title="<dog>").is_file()
    out = io.BytesIO()
    write_zip(index.items(), out)
    assert len(zipfile.ZipFile(out).namelist()) == 4


def test_by_workers_too(light_run, in_folder, shard, tmp_path):  # noqa: F811
    options = {"processes": 2, "batch_size": 2}
    index = build_index(light_run, str(shard(a_png=1, b_png=2, sub__c_png=3)), tmp_path / "index", **options)
    assert index.ids == in_folder.ids
    assert np.allclose(index.vectors, in_folder.vectors, atol=1e-5)


def test_an_index_follows_its_tars(light_run, shard, tmp_path):  # noqa: F811
    tar = shard(a_png=1, b_png=2)
    index = build_index(light_run, str(tar), tmp_path / "index")
    shard(b_png=2, c_png=3)
    done = sync(index, tar, light_run)
    assert (done.new, done.unchanged, done.removed) == (1, 1, 1)
    assert sorted(FactIndex.open(index.path).ids) == ["b.png", "c.png"]
    shard("shard-0001.tar", c_png=3, d_png=0)
    added = add_images(index, str(tmp_path / "shard-{0000..0001}.tar"), light_run)
    assert (added.unchanged, added.duplicates, len(added.new)) == (2, 1, 1)


def test_an_index_of_a_bucket_follows_it(light_run, in_folder, bucket, tmp_path):  # noqa: F811
    store = fsspec.filesystem("s3")
    store.put(str(tmp_path / "files") + "/", f"{bucket}/photos/", recursive=True)
    index = build_index(light_run, f"{bucket}/photos", tmp_path / "index")
    assert index.ids == in_folder.ids
    assert np.array_equal(index.vectors, in_folder.vectors)
    assert {item["path"] for item in index.items()} == {f"{bucket}/photos/{name}" for name in index.ids}
    again = sync(index, f"{bucket}/photos", light_run)
    assert (again.new, again.unchanged, again.removed) == (0, 3, 0)
    store.mv(f"{bucket}/photos/a.png", f"{bucket}/photos/z.png")
    store.rm(f"{bucket}/photos/b.png")
    moved = sync(index, f"{bucket}/photos", light_run)
    assert (moved.moved, moved.unchanged, moved.removed) == (1, 1, 1)
    assert sorted(index.ids) == ["sub/c.png", "z.png"]


def test_a_manifest_may_name_members_and_objects(light_run, bucket, shard, tmp_path):  # noqa: F811
    from factlearn.data.manifest import read_manifest

    shard(a_png=1)
    fsspec.filesystem("s3").put(str(tmp_path / "drawn.png"), f"{bucket}/b.png")
    rows = ["path,split,subject,predicate,object", "shard-0000.tar/a.png,train,dog,,", f"{bucket}/b.png,test,dog,,"]
    (tmp_path / "photos.csv").write_text("\n".join(rows))
    dataset = read_manifest(tmp_path / "photos.csv")
    assert len(dataset) == 2
    index = build_index(light_run, str(tmp_path / "photos.csv"), tmp_path / "index")
    assert sorted(item["path"] for item in index.items()) == sorted(
        [f"{bucket}/b.png", str(tmp_path / "shard-0000.tar" / "a.png")]
    )


def test_a_run_knows_members_and_objects_by_their_content(bucket, shard, tmp_path):
    from factlearn.data.manifest import read_manifest
    from factlearn.learning.records import Record, about_data, rows_of, write_record

    shard(a_png=1)
    store = fsspec.filesystem("s3")
    store.put(str(tmp_path / "drawn.png"), f"{bucket}/b.png")
    rows = ["path,split,subject,predicate,object", "shard-0000.tar/a.png,train,dog,,", f"{bucket}/b.png,test,dog,,"]
    (tmp_path / "photos.csv").write_text("\n".join(rows))
    dataset = read_manifest(tmp_path / "photos.csv")
    write_record(tmp_path / "data", rows_of(dataset), about_data(dataset))
    record = Record.read(tmp_path / "data")
    assert [row["path"] for row in record.rows] == [str(tmp_path / "shard-0000.tar" / "a.png"), f"{bucket}/b.png"]
    assert record.compare() == (set(), set())
    shard(a_png=2)
    store.rm(f"{bucket}/b.png")
    gone, edited = record.compare()
    assert [str(path).partition(":")[0] for path in gone] == ["s3"]
    assert edited == {tmp_path / "shard-0000.tar" / "a.png"}
