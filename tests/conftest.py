"""Small real data made on the spot: drawn shapes, word vectors in a file, VGG-16 weights with random values."""

import csv

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from safetensors.torch import save_file

from factlearn.facts import Fact

torch.set_num_threads(1)

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


@pytest.fixture(scope="session")
def vgg_weights(tmp_path_factory):
    """All 13 convolutions of VGG-16 under torchvision's names, with random values."""
    from factlearn.models.vision import torchvision

    torch.manual_seed(0)
    features = torchvision.models.vgg16(weights=None).features
    path = tmp_path_factory.mktemp("weights") / "vgg16.safetensors"
    save_file({f"features.{name}": tensor for name, tensor in features.state_dict().items()}, path)
    return path


@pytest.fixture
def config(manifest, vectors_file, vgg_weights, tmp_path, monkeypatch):
    """Plain values of a run that takes seconds: two tasks, convolutions frozen, one small hidden layer."""
    monkeypatch.setenv("FACTLEARN_CACHE", str(tmp_path / "cache"))
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
