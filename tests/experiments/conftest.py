"""Small runs, each learned once for all tests of experiments."""

import numpy as np
import pytest
import yaml

from factlearn.learning.config import parse_config
from factlearn.learning.training import train
from tests.conftest import draw


@pytest.fixture(scope="package")
def learned(manifest, vectors_file, vgg_weights, tmp_path_factory):
    """`learned(seed=0, tasks=2, name="mas")` is that run's result."""
    place = tmp_path_factory.mktemp("learned")
    made = {}
    base = {
        "device": "cpu",
        "data": {"source": "manifest", "manifest": str(manifest)},
        "language": {"vectors": str(vectors_file)},
        "model": {
            "weights": str(vgg_weights), "image_size": 32, "frozen": "conv5", "hidden": [16], "dropout": 0.2,
            "standardise": True,
        },
        "training": {"epochs": 3, "batch_size": 5, "learning_rate": 0.05},
        "evaluation": {"subsets": {"sports": ["<person, *, *>"]}},
    }  # fmt: skip

    def learn(seed=3, tasks=2, **strategy):
        key = (seed, tasks, *strategy.items())
        if key not in made:
            raw = {**base, "seed": seed, "tasks": {"count": tasks}, "strategy": strategy}
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("FACTLEARN_CACHE", str(place / "cache"))
                made[key] = train(parse_config(raw, "test"), place / f"run{len(made)}").result()
        return made[key]

    return learn


@pytest.fixture(scope="package")
def learned_classes(tmp_path_factory):
    """`learned_classes(seed=0, name="mas")` is that run's result: five tasks of two digits each."""
    place = tmp_path_factory.mktemp("classes")
    made = {}
    base = {
        "learn": "classes",
        "device": "cpu",
        "data": {"source": "split-digits"},
        "model": {"backbone": "perceptron", "hidden": [32], "dropout": 0.0},
        "training": {"epochs": 2, "batch_size": 50, "learning_rate": 0.05},
    }

    def learn(seed=0, **strategy):
        key = (seed, *strategy.items())
        if key not in made:
            raw = {**base, "seed": seed, "strategy": strategy}
            made[key] = train(parse_config(raw, "test"), place / f"run{len(made)}").result()
        return made[key]

    return learn


SPORTS = (("person", "riding", "bike"), ("person", "riding", "horse"), ("person", "swimming"), ("person", "running"))
OBJECTS = (("dog",), ("tree",), ("kite",))


@pytest.fixture(scope="package")
def sports_data(vgg_weights, tmp_path_factory):
    """A config file over seven facts, whose first task by meaning is four kinds of sports."""
    folder = tmp_path_factory.mktemp("sports")
    words = sorted({word for fact in (*SPORTS, *OBJECTS) for word in fact})
    generator = np.random.default_rng(0)
    lines = [f"{word} {' '.join(f'{x:.5f}' for x in generator.normal(size=8))}" for word in words]
    (folder / "words.txt").write_text(f"{len(words)} 8\n" + "\n".join(lines) + "\n")
    rows = ["path,split,subject,predicate,object"]
    for number, fact in enumerate((*SPORTS, *OBJECTS)):
        for seed in range(8):
            draw(number, seed, folder / f"{number}-{seed}.png")
            units = ",".join([*fact, "", ""][:3])
            rows.append(f"{number}-{seed}.png,{'train' if seed < 5 else 'test'},{units}")
    (folder / "sports.csv").write_text("\n".join(rows) + "\n")
    config = {
        "device": "cpu",
        "data": {"source": "manifest", "manifest": str(folder / "sports.csv")},
        "language": {"vectors": str(folder / "words.txt")},
        "tasks": {"count": 2},
        "model": {
            "weights": str(vgg_weights),
            "image_size": 32,
            "frozen": "conv5",
            "hidden": [16],
            "standardise": True,
        },
        "training": {"epochs": 2, "batch_size": 5, "learning_rate": 0.05},
        "strategy": {"name": "mas", "lambda": 1.0},
    }
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def cache(tmp_path_factory, monkeypatch):
    """One cache of activations for all."""
    monkeypatch.setenv("FACTLEARN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
