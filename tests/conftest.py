"""Small real data made on the spot: drawn shapes, word vectors in a file, networks' weights with random values.

`config` and `shapes_config` are plain values of runs that take seconds, of facts and of classes; `digits_config` learns
rows of numbers.
"""

import csv

import numpy as np
import pytest
import torch
from hypothesis import settings
from PIL import Image, ImageDraw
from safetensors.torch import save_file

from factlearn.facts import Fact

torch.set_num_threads(1)
settings.register_profile("busy machine", deadline=None)  # how long an example takes says nothing there
settings.load_profile("busy machine")

WORDS = ("person", "dog", "ball", "riding", "holding", "jumping", "bike", "red", "kite", "tree")
FACTS = (
    Fact("person", "riding", "bike"),
    Fact("person", "holding", "kite"),
    Fact("person", "jumping"),
    Fact("dog", "jumping"),
    Fact("red ball"),
    Fact("tree"),
)


@pytest.fixture(scope="session")
def vectors_file(tmp_path_factory):
    """Word vectors in word2vec's text form."""
    path = tmp_path_factory.mktemp("vectors") / "words.txt"
    values = np.random.default_rng(0).normal(size=(len(WORDS), 8))
    lines = [f"{word} {' '.join(f'{x:.6f}' for x in row)}" for word, row in zip(WORDS, values, strict=True)]
    path.write_text(f"{len(WORDS)} 8\n" + "\n".join(lines) + "\n")
    return path


def draw(fact_number: int, seed: int, path) -> None:
    """A noisy picture whose shape and colour depend on the fact."""
    generator = np.random.default_rng([fact_number, seed])
    image = Image.fromarray(generator.integers(180, 255, (40, 40, 3), dtype=np.uint8))
    pen = ImageDraw.Draw(image)
    x, y = generator.integers(0, 12, 2)
    colour = [(200, 30, 30), (30, 30, 200), (30, 160, 30)][fact_number % 3]
    box = (x, y, x + 24, y + 24)
    if fact_number < 3:
        pen.ellipse(box, fill=colour)
    else:
        pen.rectangle(box, fill=colour)
    image.save(path)


@pytest.fixture(scope="session")
def manifest(tmp_path_factory):
    """Six facts, six training and three test pictures each."""
    folder = tmp_path_factory.mktemp("pictures")
    rows = []
    for number, fact in enumerate(FACTS):
        for seed in range(9):
            name = f"{number}-{seed}.png"
            draw(number, seed, folder / name)
            split = "train" if seed < 6 else "test"
            rows.append((name, split, fact.subject, fact.predicate, fact.object, "sports" if number < 2 else ""))
    with open(folder / "facts.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("path", "split", "subject", "predicate", "object", "topic"))
        writer.writerows(rows)
    return folder / "facts.csv"


def save_random_weights(backbone, path):
    """A backbone's convolutions under torchvision's names, with random values."""
    from factlearn.models.backbones import BACKBONES

    torch.manual_seed(0)
    layers = torch.nn.Sequential(*BACKBONES.find(backbone).layers())
    for name, parameter in layers.named_parameters():
        if name.endswith("weight"):  # keeps activations of one size through all layers, as trained weights do
            torch.nn.init.kaiming_normal_(parameter, mode="fan_out", nonlinearity="relu")
        else:
            torch.nn.init.zeros_(parameter)
    save_file({f"features.{name}": tensor for name, tensor in layers.state_dict().items()}, path)
    return path


@pytest.fixture(scope="session")
def vgg_weights(tmp_path_factory):
    """All 13 convolutions of VGG-16."""
    return save_random_weights("vgg16", tmp_path_factory.mktemp("weights") / "vgg16.safetensors")


@pytest.fixture(scope="session")
def alexnet_weights(tmp_path_factory):
    """All 5 convolutions of AlexNet."""
    return save_random_weights("alexnet", tmp_path_factory.mktemp("weights") / "alexnet.safetensors")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and no network."""
    monkeypatch.setenv("FACTLEARN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FACTLEARN_OFFLINE", "1")
    return tmp_path / "cache"


@pytest.fixture
def config(manifest, vectors_file, vgg_weights, cache):
    """Facts in two tasks: convolutions frozen, one small hidden layer."""
    return {
        "seed": 3,
        "device": "cpu",
        "data": {"source": "manifest", "manifest": str(manifest)},
        "language": {"vectors": str(vectors_file), "normalise": True},
        "tasks": {"method": "random", "count": 2},
        "model": {
            "weights": str(vgg_weights), "image_size": 32, "frozen": "conv5", "hidden": [16], "dropout": 0.2,
            "standardise": True,
        },
        "training": {"epochs": 3, "batch_size": 5, "learning_rate": 0.05, "flip": True},
        "strategy": {"name": "mas", "lambda": 2.0},
        "evaluation": {"subsets": {"sports": ["<person, *, *>"]}},
    }  # fmt: skip


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


@pytest.fixture
def shapes_config(shapes, alexnet_weights, cache):
    """Classes of images in two tasks: convolutions frozen, one small hidden layer."""
    return {
        "learn": "classes",
        "device": "cpu",
        "data": {"source": "folder", "root": str(shapes)},
        "model": {
            "backbone": "alexnet", "weights": str(alexnet_weights), "image_size": 64, "fit": "squash",
            "frozen": "conv5", "hidden": [16], "dropout": 0.2, "standardise": True,
        },
        "training": {"epochs": 6, "batch_size": 5, "learning_rate": 0.05, "momentum": 0.9},
        "strategy": {"name": "mas"},
    }  # fmt: skip


@pytest.fixture
def digits_config():
    """Rows of numbers in five tasks of two digits each."""
    return {
        "learn": "classes",
        "device": "cpu",
        "data": {"source": "split-digits"},
        "model": {"backbone": "perceptron", "hidden": [32, 32], "dropout": 0.0},
        "training": {"epochs": 3, "batch_size": 50, "learning_rate": 0.05, "momentum": 0.9},
        "strategy": {"name": "mas"},
    }
