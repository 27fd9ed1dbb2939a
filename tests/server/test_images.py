"""Pictures in and out: added when committed, embedded by the run's model, shown small, taken away as a list."""

import csv
import hashlib
import io
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from factlearn.learning.runs import Run
from factlearn.retrieval import FactIndex
from factlearn.server.shapes.images import Added, ImageDetail, ImagesAnswer, Removed
from tests.conftest import draw
from tests.server.running import BEARER, serving


def upload(picture):
    return {"image": (picture.name, picture.read_bytes())}


def test_an_added_picture_is_committed_found_and_removed_again(writable_service, learned, tmp_path):
    running, picture = writable_service, tmp_path / "new.png"
    draw(0, 78, picture)  # its own: other tests leave theirs in the index, and the same content is one file
    photos = Path(running.service.catalog.find(None).address)
    before = FactIndex.open(photos)
    fields = {"id": "mine/one", "fact": "<person, riding, bike>", "metadata": json.dumps({"place": "garden"})}
    added = Added(**running.post("/images", 201, files=upload(picture), data=fields))
    assert (added.id, added.replaced, added.images) == ("mine/one", False, len(before) + 1)

    index = FactIndex.open(photos)  # another process would see it now
    (item,) = index.items("id = 'mine/one'")
    stored = photos.with_name("photos.uploads") / item["path"].rpartition("/")[2]
    assert stored.read_bytes() == picture.read_bytes()
    assert item["sha256"] == hashlib.sha256(picture.read_bytes()).hexdigest()
    assert (item["metadata.place"], item["metadata.name"]) == ("garden", "new.png")
    vector = dict(zip(index.ids, index.vectors, strict=True))["mine/one"]
    np.testing.assert_allclose(vector, Run.open(learned / "runs" / "mas").embed(picture), rtol=1e-4, atol=1e-5)

    assert "mine/one" in {hit["id"] for hit in running.get("/search", q="<person>", k=1000)["hits"]}
    again = Added(**running.post("/images", 201, files=upload(picture), data=fields))
    assert (again.replaced, again.images) == (True, len(before) + 1)
    detail = ImageDetail(**running.get("/images/mine%2Fone"))
    assert (detail.fact, detail.metadata["place"]) == ("<person, riding, bike>", "garden")

    gone = running.http.delete("/api/v1/images/mine%2Fone", headers=BEARER)
    assert Removed(**gone.json()).images == len(before)
    assert not stored.exists()
    assert running.http.delete("/api/v1/images/mine%2Fone", headers=BEARER).status_code == 404
    assert FactIndex.open(photos).verify() == []


def test_a_file_is_deleted_with_the_last_image_that_names_it(writable_service, tmp_path):
    running = writable_service
    folder = Path(f"{running.service.catalog.find(None).address}.uploads")
    first, second = tmp_path / "first.png", tmp_path / "second.png"
    for seed, picture in ((79, first), (80, second)):
        draw(0, seed, picture)

    def kept():
        return {each.read_bytes() for each in folder.iterdir()} & {first.read_bytes(), second.read_bytes()}

    for name in ("mine/two", "mine/three"):
        running.post("/images", 201, files=upload(first), data={"id": name})
    assert running.post("/images", 201, files=upload(second), data={"id": "mine/two"})["replaced"]
    assert kept() == {first.read_bytes(), second.read_bytes()}  # the other image still names the first
    assert running.post("/images", 201, files=upload(second), data={"id": "mine/three"})["replaced"]
    assert kept() == {second.read_bytes()}
    for name, left in (("two", {second.read_bytes()}), ("three", set())):
        assert running.http.delete(f"/api/v1/images/mine%2F{name}", headers=BEARER).status_code == 200
        assert kept() == left


def test_a_picture_is_answered_with_its_facts_and_neighbours(photo_service, learned, picture):
    index = FactIndex.open(learned / "indexes" / "photos")
    vector = Run.open(learned / "runs" / "mas").embed(picture)
    facts = photo_service.post("/facts", files=upload(picture), data={"k": 4}, headers={})["facts"]
    assert [each["fact"] for each in facts] == [str(one.fact) for one in index.facts_of(vector, 4)]
    found = photo_service.post("/search/image", files=upload(picture), data={"k": 6}, headers={})
    assert [hit["id"] for hit in found["hits"]] == [hit.id for hit in index.similar(vector, 6)]
    assert found["facts"] == facts + found["facts"][4:]


def test_a_thumbnail_is_small_cached_and_of_the_kind_that_the_client_takes(photo_service):
    hit = photo_service.get("/search", q="<person>", k=1)["hits"][0]
    response = photo_service.http.get(hit["thumb"] + "&size=64", headers={"Accept": "image/webp,*/*"})
    assert response.headers["content-type"] == "image/webp"
    assert max(Image.open(io.BytesIO(response.content)).size) <= 64
    tag = {"If-None-Match": response.headers["etag"], "Accept": "image/webp"}
    again = photo_service.http.get(hit["thumb"] + "&size=64", headers=tag)
    assert (again.status_code, again.content) == (304, b"")
    plain = photo_service.http.get(hit["thumb"], headers={"Accept": "*/*"})
    assert plain.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(plain.content)).format == "JPEG"
    assert plain.headers["etag"] != response.headers["etag"]


def test_images_are_listed_page_by_page(plain_service):
    pages, offset = [], 0
    while offset is not None:
        page = ImagesAnswer(**plain_service.get("/images", where="year >= 2000", offset=offset, limit=7))
        pages += page.images
        offset = page.next
    index = plain_service.service.catalog.find(None).current().index
    assert [image.id for image in pages] == [item["id"] for item in index.items("year >= 2000")]
    assert page.total == len(pages)


def test_chosen_images_can_be_taken_away_as_a_list_or_as_files(photo_service):
    hits = photo_service.get("/search", q="<person>", k=3)["hits"]
    ids = [hit["id"] for hit in hits]

    def taken(form):
        return photo_service.http.post("/api/v1/download", json={"ids": ids, "format": form})

    rows = list(csv.DictReader(io.StringIO(taken("csv").text)))
    assert [row["id"] for row in rows] == ids
    assert [row["fact"] for row in rows] == [hit["fact"] for hit in hits]
    assert [row["id"] for row in taken("json").json()] == ids
    with zipfile.ZipFile(io.BytesIO(taken("zip").content)) as archive:
        listed = json.loads(archive.read("images.json"))
        assert [row["id"] for row in listed] == ids
        for row, hit in zip(listed, hits, strict=True):
            with open(hit["path"], "rb") as original:
                assert archive.read(row["file"]) == original.read()


def test_a_disk_that_cannot_be_written_is_a_sentence_without_its_path(plain, picture):
    with serving(plain.path) as running:
        shutil.rmtree(running.service.spool)  # as good as full or read-only: nothing can be written there
        refused = running.http.post("/api/v1/facts", files={"image": picture.read_bytes()})
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        assert "(No such file or directory)" in refused.json()["detail"]
        assert str(running.service.spool) not in refused.text
        assert running.http.get("/api/v1/search", params={"q": "<dog>"}).status_code == 200
