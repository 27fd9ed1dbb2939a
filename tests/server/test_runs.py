"""The run behind an index: found as commands find it, asked about again when it learns more, refused if foreign."""

import shutil
from dataclasses import replace
from pathlib import Path

from factlearn.indexing.versions import run_of
from factlearn.retrieval import FactIndex, Version
from tests.server.running import BEARER, serving, wait_until


def copied(index, place, version):
    """The same images in another index, as vectors of another version."""
    return FactIndex.create(
        place, index.vectors, index.ids, paths=index.paths, language=index.language, model=version,
        known_facts=index.facts,
    )  # fmt: skip


def version_of(index):
    entry = index.models[index.model]
    return Version(index.model, entry.lineage, entry.run, entry.stage)


def test_a_run_that_was_moved_with_its_index_is_found_from_any_folder(learned, tmp_path, monkeypatch):
    shutil.copytree(learned / "runs" / "mas", tmp_path / "moved" / "runs" / "mas")
    original = FactIndex.open(learned / "indexes" / "photos")
    gone = replace(version_of(original), run="/nowhere/any more/runs/mas")
    index = copied(original, tmp_path / "moved" / "indexes" / "photos", gone)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with serving(index.path) as running:
        wait_until(lambda: running.service.catalog.find(None).run is not None)
        found = Path(running.service.catalog.find(None).run["folder"])
    assert found == run_of(index).folder == (tmp_path / "moved" / "runs" / "mas").resolve()


def test_a_newer_model_in_the_index_is_taken_into_use_for_pictures(learned, tmp_path, picture):
    early, late = (FactIndex.open(learned / "indexes" / name) for name in ("photos-after-task-1", "photos"))
    index = copied(early, tmp_path / "photos", version_of(early))
    with serving(index.path) as running:
        served = running.service.catalog.find(None)
        wait_until(lambda: served.run is not None)
        assert served.run["search_stage"] == 1
        index.add(late.vectors, late.ids, paths=late.paths, model=version_of(late))
        wait_until(lambda: served.run["search_stage"] == 2)
        files = {"image": (picture.name, picture.read_bytes())}
        added = running.post("/images", 201, files=files, data={"id": "mine"})
        assert added["images"] == len(late) + 1
    entry = FactIndex.open(index.path).models[late.model]
    assert entry.calibration == late.models[late.model].calibration  # the addition says what its scores are worth
    assert entry.taught == late.models[late.model].taught


def test_a_run_that_is_foreign_to_the_index_does_not_embed_for_it(learned, tmp_path, picture):
    original = FactIndex.open(learned / "indexes" / "photos")
    foreign = copied(original, tmp_path / "foreign", Version("another", "another"))
    with serving(foreign.path, run=learned / "runs" / "mas") as running:
        wait_until(lambda: running.service.catalog.find(None).run is not None)
        for path in ("/search/image", "/facts", "/images"):
            response = running.http.post(f"/api/v1{path}", files={"image": picture.read_bytes()}, headers=BEARER)
            assert response.status_code == 409
            assert "foreign" in response.json()["detail"]
            assert str(tmp_path) not in response.text


def test_an_index_without_a_run_says_so_where_a_picture_would_need_one(plain_service, picture):
    response = plain_service.http.post("/api/v1/search/image", files={"image": picture.read_bytes()})
    assert response.status_code == 409
    assert "--run" in response.json()["detail"]
    assert plain_service.get("/runs") == {"runs": []}
    assert plain_service.get("")["indexes"][0]["writable"] is False
