"""Folders with finished runs, each learned once for all tests of a module."""

import copy

import pytest
import yaml

from tests.cli.commands import factlearn


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
