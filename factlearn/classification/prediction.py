"""Classes of a user's own images, from a trained run."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from factlearn.classification.results import load_model
from factlearn.classification.runs import ClassRun
from factlearn.errors import RunError
from factlearn.images import find_images
from factlearn.learning.assembly import make_preprocess
from factlearn.models.inference import image_batches

_BATCH = 32


@dataclass(frozen=True)
class Guess:
    """A class that an image may show, and how sure the task's head is of it."""

    image: str
    task: str
    label: str
    probability: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def predict(
    run: ClassRun, images: Sequence[Path], *, task: str | None = None, top: int = 1, stage: int | None = None
) -> list[Guess]:
    """The likeliest classes of images.

    Args:
        run: a run with at least one finished stage.
        images: image files, or folders of them.
        task: whose head is asked; all heads learned if not given, the most confident class of any first.
        top: how many classes an image.
        stage: use the network as it was after this stage; the last if not given.

    Raises:
        RunError: if the run learned from rows of numbers, or has not learned the task.
        ImageError: naming an image that cannot be read.
    """
    if run.values is not None:
        raise RunError(
            f"{run.folder} learned from rows of {run.values} numbers, not from images; it cannot look at yours."
        )
    model = load_model(run, stage)
    known = run.tasks()[: model.suffix.open]
    names = [name for name, _ in known]
    if task is not None and task not in names:
        raise RunError(f"{run.folder} has not learned a task {task!r}; it has learned {', '.join(names)}.")
    paths = [path for each in images for path in (find_images(each) if each.is_dir() else [each])]
    asked = [number for number, name in enumerate(names) if task in (None, name)]
    if model.suffix.one_head:
        asked = asked[-1:]
    labels = [(names[number], label) for number in asked for label in known[number][1]]
    guesses = []
    for batch in image_batches(paths, make_preprocess(run.config.model), _BATCH):
        with torch.inference_mode():
            scores = model.suffix.task_scores(model.suffix.features(model.prefix(batch.images)), len(known))
            chances = torch.cat([scores[number].softmax(1) for number in asked], dim=1)
        best = chances.topk(min(top, len(labels)), dim=1)
        for position, values, places in zip(batch.positions, best.values.tolist(), best.indices.tolist(), strict=True):
            image = str(paths[position])
            guesses += [Guess(image, labels[p][0], labels[p][1], v) for v, p in zip(values, places, strict=True)]
    return guesses
