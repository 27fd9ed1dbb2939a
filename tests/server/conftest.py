"""A small run of two tasks learned with MAS, its indexes after each task, and services over them."""

import shutil

import numpy as np
import pytest

from factlearn.experiments.demo import index_stages
from factlearn.learning.config import parse_config
from factlearn.learning.training import train
from factlearn.retrieval import FactIndex
from tests.conftest import draw
from tests.retrieval.conftest import FACTS, language_space
from tests.server.running import serving, wait_until


@pytest.fixture(scope="session")
def learned(manifest, vectors_file, alexnet_weights, tmp_path_factory):
    """A folder with runs/mas and indexes/photos, indexes/photos-after-task-1."""
    root = tmp_path_factory.mktemp("served")
    raw = {
        "seed": 1,
        "device": "cpu",
        "data": {"source": "manifest", "manifest": str(manifest)},
        "language": {"vectors": str(vectors_file)},
        "tasks": {"count": 2},
        "model": {
            "backbone": "alexnet", "weights": str(alexnet_weights), "image_size": 64, "frozen": "conv5", "hidden": [8],
            "standardise": True, "keep_activations": False,
        },
        "training": {"epochs": 4, "learning_rate": 0.05},
        "strategy": {"name": "mas"},
    }  # fmt: skip
    index_stages(train(parse_config(raw, "test"), root / "runs" / "mas"), root / "indexes" / "photos")
    return root


@pytest.fixture
def photos(learned, tmp_path):
    """A copy of the index and its sibling that a test may change; the run stays where it is."""
    for name in ("photos", "photos-after-task-1"):
        shutil.copytree(learned / "indexes" / name, tmp_path / "indexes" / name)
    return tmp_path / "indexes" / "photos"


@pytest.fixture(scope="session")
def photo_service(learned):
    """A service over the run's index that tests only read from, or whose additions do not matter to others."""
    with serving(learned / "indexes" / "photos") as running:
        wait_until(lambda: running.service.catalog.find(None).run is not None)
        yield running


@pytest.fixture(scope="session")
def writable_service(learned, tmp_path_factory):
    """A service over a copy of the index, to which tests add images of their own."""
    copy = tmp_path_factory.mktemp("writable") / "photos"
    shutil.copytree(learned / "indexes" / "photos", copy)
    with serving(copy) as running:
        wait_until(lambda: running.service.catalog.find(None).run is not None)
        yield running


@pytest.fixture(scope="session")
def picture(tmp_path_factory):
    """A picture that is not in the index."""
    path = tmp_path_factory.mktemp("picture") / "new.png"
    draw(0, 77, path)
    return path


def make_plain(path, name="plain", count=120, place=None):
    """An index without a run, whose service needs no model."""
    language = language_space()
    rng = np.random.default_rng(1)
    shown = [FACTS[place] for place in rng.integers(0, len(FACTS), count)]
    targets, _ = language.embed(shown)
    vectors = (targets + rng.normal(size=targets.shape) * 0.3).astype(np.float32)
    ids = [f"set/{number}.png" for number in range(count)]
    return FactIndex.create(
        place or path / name,
        vectors,
        ids,
        paths=[path / "pictures" / image for image in ids],
        language=language,
        model="m1",
        known_facts=FACTS,
        facts=[None if place % 10 == 0 else fact for place, fact in enumerate(shown)],
        metadata=[{"split": "test", **({"year": str(1990 + place)} if place % 2 else {})} for place in range(count)],
    )


@pytest.fixture
def plain(tmp_path):
    return make_plain(tmp_path)


@pytest.fixture(scope="session")
def plain_service(tmp_path_factory):
    """A service over an index without a run that tests only read from."""
    index = make_plain(tmp_path_factory.mktemp("plain"))
    with serving(index.path) as running:
        yield running
