"""Runs in closed form of drawn facts and classes, some of them left out, for what forgetting and merging must equal."""

import torch

from factlearn.files import write_json
from tests.conftest import FACTS, draw_shape
from tests.learning.growing import write_manifest
from tests.learning.helpers import learn, tensors

RIDGE = {"name": "ridge", "shrinkage": 0.3}
STEP = 0.1


def facts_run(config, folder, name, groups, *, readout="posterior", photos=range(9), **changes):
    """A run of tasks of facts, given by their numbers, on features that do not depend on the data."""
    manifest = write_manifest(folder / f"{name}-pictures", "facts.csv", [n for group in groups for n in group], photos)
    tasks = [{"name": f"{name} {n}", "facts": [str(FACTS[i]) for i in group]} for n, group in enumerate(groups, 1)]
    write_json(folder / f"{name}.json", {"tasks": tasks})
    raw = {
        **config,
        "data": {"source": "manifest", "manifest": str(manifest)},
        "tasks": {"method": "file", "file": str(folder / f"{name}.json")},
        "model": {**config["model"], "readout": readout, "hidden": [], "standardise": False},
        "strategy": RIDGE,
        "evaluation": {},
    }
    return learn(raw, folder / "runs" / name, **changes)


def classes_run(shapes_config, folder, name, groups, **changes):
    """A run of tasks of classes, each a shape with some colours, on features that do not depend on the data."""
    root = folder / f"{name}-shapes"
    for task, shape, colours in groups:
        for colour in colours:
            for seed in range(6):
                side = "train" if seed < 4 else "test"
                draw_shape(root / task / side / colour / f"{seed}.png", shape, colour, seed + 10 * len(task))
    raw = {
        **shapes_config,
        "data": {"source": "folder", "root": str(root), "tasks": [task for task, _, _ in groups]},
        "model": {**shapes_config["model"], "hidden": [], "standardise": False},
        "strategy": RIDGE,
    }
    return learn(raw, folder / "runs" / name, **changes)


def assert_same_knowledge(one, other, *, steps=1):
    """The last networks and what they say of test images agree to rounding, and the evaluations are equal.

    The posterior's temperature is on a grid and may be off by some steps, since likelihoods were measured along the
    way; what follows from it is then not compared.
    """
    same_temperature = True
    for file in ("model", "outputs"):
        ours, theirs = (tensors(run, run.finished_stages(), file) for run in (one, other))
        assert [each.shape for each in ours.values()] == [each.shape for each in theirs.values()]
        for (name, mine), yours in zip(ours.items(), theirs.values(), strict=True):
            if name == "temperature":
                assert abs(float(mine.log10() - yours.log10())) < STEP * steps + 0.01
                same_temperature = mine.equal(yours)
            elif file == "model" or same_temperature:
                torch.testing.assert_close(mine, yours, rtol=2e-4, atol=2e-5)
    if same_temperature:
        assert one.result().final.headline() == other.result().final.headline()
