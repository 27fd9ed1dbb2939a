"""A small run of two tasks, and a folder of pictures."""

import pytest

from factlearn.learning.config import parse_config
from factlearn.learning.training import train
from tests.conftest import draw


def _config(manifest, vectors_file, **model):
    return {
        "seed": 1,
        "device": "cpu",
        "data": {"source": "manifest", "manifest": str(manifest)},
        "language": {"vectors": str(vectors_file)},
        "tasks": {"count": 2},
        "model": {"frozen": "conv5", "hidden": [8], "standardise": True, "keep_activations": False, **model},
        "training": {"epochs": 4, "learning_rate": 0.05},
        "strategy": {"name": "finetune"},
    }


@pytest.fixture(scope="session")
def run(manifest, vectors_file, vgg_weights, tmp_path_factory):
    """Two tasks, learned with fine-tuning, so that the second changes the network much."""
    raw = _config(manifest, vectors_file, weights=str(vgg_weights), image_size=32)
    return train(parse_config(raw, "test"), tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="session")
def light_run(manifest, vectors_file, alexnet_weights, tmp_path_factory):
    """The first task, learned by a network that is quick to load."""
    raw = _config(manifest, vectors_file, backbone="alexnet", weights=str(alexnet_weights), image_size=64)
    return train(parse_config(raw, "test"), tmp_path_factory.mktemp("runs") / "light", stop_after=1)


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    (folder / "more").mkdir(parents=True)
    for seed in range(4):
        draw(seed, 50 + seed, folder / f"{seed}.png")
    draw(4, 60, folder / "more" / "4.png")
    return folder
