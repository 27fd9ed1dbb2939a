"""Small real data: a folder tree of drawn shapes, and configs that learn it, or the digits, in a second."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from safetensors.torch import save_file

COLOURS = {"red": (200, 30, 30), "green": (30, 160, 30), "blue": (30, 30, 200)}


def draw_shape(path, shape, colour, seed):
    """A noisy picture of a round or square thing."""
    generator = np.random.default_rng([sum(map(ord, shape + colour)), seed])
    image = Image.fromarray(generator.integers(180, 255, (40, 40, 3), dtype=np.uint8))
    x, y = (int(value) for value in generator.integers(0, 12, 2))
    pen = ImageDraw.Draw(image)
    (pen.ellipse if shape == "round" else pen.rectangle)((x, y, x + 24, y + 24), fill=COLOURS[colour])
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


@pytest.fixture(scope="session")
def shapes(tmp_path_factory):
    """Two tasks, round and square things; the classes are their colours. Split into train and test."""
    root = tmp_path_factory.mktemp("shapes")
    for shape in ("round", "square"):
        for colour in COLOURS:
            for seed in range(8):
                side = "train" if seed < 5 else "test"
                draw_shape(root / shape / side / colour / f"{seed}.png", shape, colour, seed)
    return root


@pytest.fixture(scope="session")
def alexnet_weights(tmp_path_factory):
    """AlexNet's convolutions under torchvision's names, with random values."""
    from factlearn.models.classifier import _layers

    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "alexnet.safetensors"
    tensors = torch.nn.Sequential(*_layers("alexnet")).state_dict()
    save_file({f"features.{name}": tensor for name, tensor in tensors.items()}, path)
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FACTLEARN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FACTLEARN_OFFLINE", "1")
    return tmp_path / "cache"


@pytest.fixture
def shapes_config(shapes, alexnet_weights, cache):
    return {
        "device": "cpu",
        "data": {"source": "folder", "root": str(shapes)},
        "model": {
            "architecture": "alexnet",
            "weights": str(alexnet_weights),
            "image_size": 64,
            "fit": "squash",
            "frozen": "conv5",
            "hidden": [16],
            "dropout": 0.2,
            "standardise": True,
        },
        "training": {"epochs": 6, "batch_size": 5, "learning_rate": 0.05, "momentum": 0.9},
    }


@pytest.fixture
def digits_config():
    return {
        "device": "cpu",
        "data": {"source": "split-digits"},
        "model": {"architecture": "perceptron", "hidden": [32, 32], "dropout": 0.0},
        "training": {"epochs": 3, "batch_size": 50, "learning_rate": 0.05, "momentum": 0.9},
    }
