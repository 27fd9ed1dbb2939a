"""Folders with finished runs, each learned once for all tests of a module, and collections for each test alone."""

import copy
import os

import numpy as np
import pytest
import yaml
from PIL import Image

from factlearn.facts import Fact
from factlearn.language import LanguageSpace
from factlearn.retrieval import FactIndex
from tests.cli.commands import factlearn, output_of
from tests.conftest import draw
from tests.learning.growing import write_manifest
from tests.retrieval.test_sentences import PHOTO_FACTS

CACHE = os.environ.get("FACTLEARN_CACHE")


@pytest.fixture(scope="module")
def module_cache(tmp_path_factory):
    """A cache for all tests of a module, and no network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FACTLEARN_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("FACTLEARN_OFFLINE", "1")
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory, module_cache, manifest, vectors_file, vgg_weights):
    """A folder with a config of facts, a finished run and an index of its images."""
    folder = tmp_path_factory.mktemp("place")
    raw = {
        "seed": 1,
        "device": "cpu",
        "data": {"source": "manifest", "manifest": str(manifest)},
        "language": {"vectors": str(vectors_file)},
        "tasks": {"count": 2},
        "model": {
            "weights": str(vgg_weights), "image_size": 32, "frozen": "conv5", "hidden": [8], "standardise": True,
        },
        "training": {"epochs": 2, "learning_rate": 0.05},
        "strategy": {"name": "mas", "lambda": 1.0},
    }  # fmt: skip
    (folder / "config.yaml").write_text(yaml.safe_dump(raw))
    done = factlearn("train", "config.yaml", "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "task 2" in done.stdout
    built = factlearn("index", "build", "run", "--images", manifest, "--out", "index", cwd=folder)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def class_place(tmp_path_factory, module_cache, shapes, alexnet_weights):
    """A folder with a config of classes and a finished run; and one of rows, of which one task is learned."""
    folder = tmp_path_factory.mktemp("class-place")
    raw = {
        "learn": "classes",
        "device": "cpu",
        "data": {"source": "folder", "root": str(shapes)},
        "model": {
            "backbone": "alexnet", "weights": str(alexnet_weights), "image_size": 64, "fit": "squash",
            "frozen": "conv5", "hidden": [16], "dropout": 0.2, "standardise": True,
        },
        "training": {"epochs": 2, "batch_size": 5, "learning_rate": 0.05},
        "strategy": {"name": "mas"},
    }  # fmt: skip
    rows = copy.deepcopy(raw)
    rows["data"] = {"source": "split-digits"}
    rows["model"] = {"backbone": "perceptron", "hidden": [32], "dropout": 0.0}
    for name, config, options in (("config", raw, ()), ("rows", rows, ("--tasks", 1))):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config))
        out = "run" if name == "config" else name
        done = factlearn("train", f"{name}.yaml", "--out", out, *options, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def photos(tmp_path):
    """A folder of four pictures, one of them in a folder of its own."""
    folder = tmp_path / "photos"
    (folder / "trip").mkdir(parents=True)
    for seed in range(3):
        draw(seed, 300 + seed, folder / f"{seed}.png")
    draw(3, 310, folder / "trip" / "3.png")
    return folder


@pytest.fixture
def index(place, photos, tmp_path):
    """An index `ix` of the photos."""
    output_of("index", "build", place / "run", "--images", photos, "--out", "ix", cwd=tmp_path)
    return tmp_path / "ix"


@pytest.fixture
def mine(place, tmp_path):
    """A folder with a finished run of the user's own photos, and a config for more."""
    manifest = write_manifest(tmp_path / "photos", "facts.csv", range(4))
    raw = yaml.safe_load((place / "config.yaml").read_text())
    raw["data"]["manifest"] = str(manifest)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(raw))
    output_of("train", "config.yaml", "--out", "runs/mas", cwd=tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def album_folder(tmp_path_factory):
    """A folder with an index of noisy vectors: many horses, some bikes, one image of everything else."""
    folder = tmp_path_factory.mktemp("album")
    shown = [Fact("person", "riding", "horse")] * 60 + [Fact("person", "riding", "bike")] * 10 + PHOTO_FACTS
    Image.new("RGB", (20, 20)).save(folder / "photo.png")
    with pytest.MonkeyPatch.context() as patch:
        use_own_cache(patch)
        language = LanguageSpace.open("glove-6b-50d", normalise=True)
        targets, _ = language.embed(shown)
        noise = np.random.default_rng(0).normal(size=targets.shape) * 0.15
        FactIndex.create(
            folder / "ix",
            (targets + noise).astype(np.float32),
            [f"{number}.png" for number in range(len(shown))],
            paths=[folder / "photo.png"] * len(shown),
            language=language,
            model="m",
            known_facts=PHOTO_FACTS,
            facts=shown,
        )
    return folder


@pytest.fixture
def album(album_folder, monkeypatch):
    """An index `ix` of facts like those of a photo collection, with real word vectors."""
    use_own_cache(monkeypatch)
    return album_folder


def use_own_cache(patch):
    """Find assets where the user keeps them, whatever the other fixtures of a module say."""
    patch.delenv("FACTLEARN_OFFLINE", raising=False)
    patch.delenv("FACTLEARN_CACHE", raising=False)
    if CACHE:
        patch.setenv("FACTLEARN_CACHE", CACHE)
