"""What images of the user's show, by a trained run: facts or classes, the likeliest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from factlearn.errors import RunError
from factlearn.evaluation.scoring import fact_scores
from factlearn.images import find_images
from factlearn.learning.classes import class_names
from factlearn.learning.results import load_model
from factlearn.learning.runs import Run
from factlearn.models.inference import classify_images, embed_images


@dataclass(frozen=True)
class Guess:
    """A fact or a class that an image may show.

    Attributes:
        image: its path.
        task: that taught the fact or class.
        label: the fact or class.
        measure: what the value is: a head's `probability` of a class, or the `score` of a fact, minus the mean squared
            distance over its units.
        value: higher is likelier.
    """

    image: str
    task: str
    label: str
    measure: str
    value: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"image": self.image, "task": self.task, "label": self.label, self.measure: self.value}


def predict(
    run: Run, images: Sequence[Path], *, task: str | None = None, top: int = 1, stage: int | None = None
) -> list[Guess]:
    """The facts or classes that images show.

    Args:
        run: a run with at least one finished stage.
        images: image files, or folders of them.
        task: consider this task's facts or classes alone; those of all tasks learned if not given.
        top: how many guesses per image.
        stage: ask the network as it was after this stage; the last if not given.

    Raises:
        RunError: if the run learned from rows of numbers, or has not learned the task.
        ImageError: naming an image that cannot be read.
    """
    stage = run.check_stage(stage)
    learned = list(run.stage(stage)["tasks"])
    if task is not None and task not in learned:
        raise RunError(f"{run.folder} has not learned a task {task!r}; it has learned {', '.join(learned)}.")
    paths = [path for each in images for path in (find_images(each) if each.is_dir() else [each])]
    asked = [name for name in learned if task in (None, name)]
    return (_facts if run.config.learn == "facts" else _classes)(run, paths, asked, top, stage)


def _facts(run: Run, paths: Sequence[Path], tasks: Sequence[str], top: int, stage: int) -> list[Guess]:
    taught = {fact: task.name for task in run.tasks().tasks if task.name in tasks for fact in task.facts}
    known = list(taught.items())
    vectors, _ = embed_images(load_model(run, stage), paths)
    scores = fact_scores(vectors, *run.language().embed([fact for fact, _ in known]))
    labels = [(task, str(fact)) for fact, task in known]
    return [
        guess for path, row in zip(paths, scores.T, strict=True) for guess in _best(path, row, labels, "score", top)
    ]


def _classes(run: Run, paths: Sequence[Path], tasks: Sequence[str], top: int, stage: int) -> list[Guess]:
    if (values := run.tasks_json().get("values")) is not None:
        raise RunError(f"{run.folder} learned from rows of {values} numbers, not from images; it cannot see yours.")
    model = load_model(run, stage)
    known = class_names(run)
    heads = [number for number, (name, _) in enumerate(known) if name in tasks]
    if model.suffix.one_head:
        heads = heads[-1:]
    labels = [(known[head][0], label) for head in heads for label in known[head][1]]
    return [
        guess
        for position, chances in classify_images(model, paths, heads)
        for guess in _best(paths[position], chances, labels, "probability", top)
    ]


def _best(path: Path, values: Any, labels: Sequence[tuple[str, str]], measure: str, top: int) -> list[Guess]:
    order = np.argsort(-values, kind="stable")[:top]
    return [Guess(str(path), labels[n][0], labels[n][1], measure, float(values[n])) for n in order]
