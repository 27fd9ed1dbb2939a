"""Small runs, each learned once for all tests of experiments."""

import pytest

from factlearn.config import parse_config
from factlearn.results import load_result
from factlearn.training import train


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
                run = train(parse_config(raw, "test"), place / f"run{len(made)}")
            made[key] = load_result(run)
        return made[key]

    return learn
