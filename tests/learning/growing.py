"""A small life: three tasks planned, two taught later; and the same five tasks planned ahead."""

import csv
import shutil
from dataclasses import dataclass
from pathlib import Path

from factlearn.files import write_json
from factlearn.learning.additions import learn_data
from factlearn.learning.runs import Run
from tests.conftest import FACTS, draw, draw_shape
from tests.learning.helpers import learn

PLANNED, LATER = FACTS[:4], FACTS[4:]
"""The units of the later facts, `red ball` and `tree`, are in no planned one."""
SMALL = {"ebll": {"code_size": 4, "autoencoder_epochs": 2}}


def settings(name):
    """A quick version of a method."""
    return {"name": name, **SMALL.get(name, {})}


def write_manifest(folder, name, numbers, photos=range(9), *, split=True):
    """Drawn photos of facts, two thirds of them for training, in a manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = ["path", *(["split"] if split else []), "subject", "predicate", "object"]
    with open(folder / name, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        for number in numbers:
            for seed in photos:
                if not (folder / f"{number}-{seed}.png").exists():
                    draw(number, seed, folder / f"{number}-{seed}.png")
                side = ["train" if seed % 3 < 2 else "test"] if split else []
                fact = FACTS[number]
                writer.writerow([f"{number}-{seed}.png", *side, fact.subject, fact.predicate, fact.object])
    return folder / name


@dataclass
class Life:
    """Configs of three tasks and of five, and the data of the two that come later."""

    three: dict
    five: dict
    later: list[Path]
    old: Path

    def planned(self, out, strategy="mas", **changes):
        return learn(self.five, out, strategy=settings(strategy), **changes)

    def begun(self, out, strategy="mas", **changes):
        return learn(self.three, out, strategy=settings(strategy), **changes)

    def grown(self, out, strategy="mas"):
        """Three tasks, then the two others, one call each; all old photos are deleted in between."""
        self.begun(out, strategy)
        for number, data in enumerate(self.later, 4):
            shutil.rmtree(self.old, ignore_errors=True)
            learn_data(out, data, name=f"task {number}")
        return Run.open(out)


def facts_life(config, folder):
    """Four facts in three tasks, then a task of one fact each."""
    groups = [PLANNED[:2], PLANNED[2:3], PLANNED[3:4], *([fact] for fact in LATER)]
    tasks = [
        {"name": f"task {number}", "facts": [str(fact) for fact in sorted(group)]}
        for number, group in enumerate(groups, 1)
    ]
    configs = []
    for count, numbers in ((3, range(4)), (5, range(6))):
        manifest = write_manifest(folder / f"pictures-{count}", "facts.csv", numbers)
        write_json(folder / f"tasks-{count}.json", {"tasks": tasks[:count]})
        data = {"source": "manifest", "manifest": str(manifest)}
        chosen = {"method": "file", "file": str(folder / f"tasks-{count}.json")}
        configs.append({**config, "data": data, "tasks": chosen, "training": {**config["training"], "epochs": 2}})
    later = [write_manifest(folder / f"later-{number}", "new.csv", [number]) for number in (4, 5)]
    return Life(*configs, later, folder / "pictures-3")


def classes_life(shapes_config, folder):
    """Round and square things in three tasks by their colours, then two tasks more."""
    pairs = {"a": ("round", "red", "green"), "b": ("square", "red", "green"), "c": ("round", "blue", "red"),
             "task 4": ("square", "blue", "green"), "task 5": ("round", "green", "blue")}  # fmt: skip
    for place, (name, (shape, *colours)) in enumerate(pairs.items()):
        for root in ("shapes-3", "shapes-5") if place < 3 else ("shapes-5", f"later-{name[-1]}"):
            task = folder / root / (name if root != f"later-{name[-1]}" else "")
            for colour in colours:
                for seed in range(6):
                    side = "train" if seed < 4 else "test"
                    draw_shape(task / side / colour / f"{seed}.png", shape, colour, seed + 10 * place)
    training = {**shapes_config["training"], "epochs": 2}
    configs = [
        {**shapes_config, "data": {"source": "folder", "root": str(folder / f"shapes-{count}")}, "training": training}
        for count in (3, 5)
    ]
    return Life(*configs, [folder / "later-4", folder / "later-5"], folder / "shapes-3")
