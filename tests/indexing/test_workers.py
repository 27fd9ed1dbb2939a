"""Workers that embed images: what they give is what one process gives, whichever of them dies."""

import os
import shutil
import signal

import numpy as np
import pytest

from factlearn.errors import FactIndexError, ImageError
from factlearn.indexing.building import add_images, build_index
from factlearn.indexing.workers import Embedded, LocalWorkers, Work, WorkerLost, embed_by
from factlearn.learning.results import load_model
from factlearn.models.inference import embed_images
from tests.conftest import draw

BATCH = 2


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Pictures, one of which cannot be decoded."""
    folder = tmp_path_factory.mktemp("many")
    for number in range(24):
        draw(number % 6, 100 + number, folder / f"{number:02}.png")
    (folder / "05.png").write_bytes(b"no picture")
    return folder


def embedded(workers, paths, after_first=lambda: None):
    """The places and vectors that workers give; something may happen to them meanwhile."""
    places, vectors = [], []
    for start, found in embed_by(workers, paths, BATCH):
        places += [start + place for place in found.kept]
        vectors.append(found.vectors)
        after_first()
    return places, np.concatenate(vectors)


def test_a_killed_worker_is_replaced_and_every_image_is_embedded_once(light_run, many):
    paths = sorted(many.iterdir())
    workers = LocalWorkers(2, Work(light_run.folder, 1, BATCH))
    killed = []

    def kill():
        if not killed:
            killed.append(next(iter(workers._pool._processes)))
            os.kill(killed[0], signal.SIGKILL)

    try:
        places, vectors = embedded(workers, paths, kill)
    finally:
        workers.close()
    assert killed
    expected, kept = embed_images(load_model(light_run, 1), paths, batch_size=BATCH, on_error=lambda error: None)
    assert places == kept == [place for place in range(24) if place != 5]
    np.testing.assert_allclose(vectors, expected, rtol=1e-4, atol=1e-5)


def test_images_that_kill_every_worker_are_named(many):
    class Doomed:
        """Workers none of which survives the second chunk."""

        count = 1

        def submit(self, paths):
            return paths

        def result(self, begun):
            if begun[0].name == "04.png":
                raise WorkerLost
            return Embedded(np.zeros((len(begun), 3, 8), np.float32), list(range(len(begun))), [])

        def close(self):
            pass

    with pytest.raises(FactIndexError, match=r"died 4 times at the 4 images from .*04\.png to .*07\.png"):
        list(embed_by(Doomed(), sorted(many.iterdir()), BATCH))


def test_an_unreadable_image_is_named_by_workers_too(light_run, many, tmp_path, capsys):
    with pytest.raises(ImageError, match=r"05\.png"):
        build_index(light_run, str(many), tmp_path / "index", processes=2, batch_size=BATCH)
    assert not (tmp_path / "index").exists()


@pytest.mark.slow
def test_ray_loses_and_doubles_no_image_when_a_node_dies(light_run, many, tmp_path, monkeypatch):
    """Three nodes; one is killed once the first images are in the index."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    from factlearn.indexing import building

    monkeypatch.setattr(building, "_COMMIT_EVERY", 4)
    images = tmp_path / "images"
    shutil.copytree(many, images)
    (images / "05.png").unlink()
    alone = build_index(light_run, str(images), tmp_path / "alone")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        others = [cluster.add_node(num_cpus=1) for _ in range(2)]
        commit, commits = building._create, []

        def kill_a_node(*arguments):
            commits.append(commit(*arguments))
            cluster.remove_node(others[0], allow_graceful=False)
            return commits[0]

        monkeypatch.setattr(building, "_create", kill_a_node)
        shared = build_index(light_run, str(images), tmp_path / "shared", batch_size=1, ray=cluster.address)
    finally:
        cluster.shutdown()
    assert commits
    assert shared.ids == alone.ids
    np.testing.assert_allclose(shared.vectors, alone.vectors, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_adding_by_ray_continues_what_was_added_before(light_run, many, tmp_path):
    pytest.importorskip("ray")
    part, images = tmp_path / "part", tmp_path / "images"
    shutil.copytree(many, images)
    (images / "05.png").unlink()
    shutil.copytree(images, part, ignore=lambda folder, names: [name for name in names if name > "10.png"])
    index = build_index(light_run, str(part), tmp_path / "index")
    shutil.rmtree(part)
    report = add_images(index, str(images), batch_size=1, ray="local", processes=2)
    assert (len(report.new), len(index)) == (13, 23)


def test_a_cluster_that_is_not_there_is_one_sentence(light_run, many, tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(FactIndexError, match=r"There is no Ray cluster at '127\.0\.0\.1:1'"):
        build_index(light_run, str(many), tmp_path / "index", batch_size=1, skip_unreadable=True, ray="127.0.0.1:1")
