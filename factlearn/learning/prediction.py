"""Prediction with a trained run: the facts or classes in a user's images, most likely first, or "none of these".

Probabilities are calibrated on the run's held-out photos (`evaluation/answers.py`), facts of one, two and three units
and the classes of all heads together. A run that had none gives scores instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factlearn import places
from factlearn.data.checking import check_readable
from factlearn.errors import ImageError, RunError
from factlearn.evaluation.answers import NONE
from factlearn.evaluation.scoring import fact_scores
from factlearn.images import find_images
from factlearn.learning.classes import class_calibration, class_names
from factlearn.learning.held_out import calibration_of, taught
from factlearn.learning.results import load_model
from factlearn.learning.runs import Run
from factlearn.models.inference import embed_images, score_images
from factlearn.progress import say

OnError = Callable[[ImageError], None] | None
Label = tuple[str, str]


@dataclass(frozen=True)
class Guess:
    """A fact or a class that an image may show.

    Attributes:
        image: its path.
        task: that taught the fact or class; empty for none of these.
        label: the fact or class, or "none of these".
        measure: what the value is: a calibrated `probability`; or, of a run without held-out photos, the `score` of a
            fact, minus the mean squared distance over its units, or the `confidence` of a head in its class.
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
    run: Run,
    images: Sequence[Path],
    *,
    task: str | None = None,
    top: int = 1,
    stage: int | None = None,
    skip_unreadable: bool = False,
) -> list[Guess]:
    """Predict the facts or classes in images.

    Args:
        run: a run with at least one finished stage.
        images: image files, or folders of them.
        task: consider this task's facts or classes alone; those of all tasks learned, and none of these, if not given.
        top: how many guesses per image.
        stage: ask the network as it was after this stage; the last if not given.
        skip_unreadable: leave out images that cannot be decoded, naming each in one line.

    Raises:
        RunError: if the run learned from rows of numbers, or has not learned the task.
        ImageError: if images cannot be decoded, listing them all, unless `skip_unreadable`; always if none can.
    """
    stage = run.check_stage(stage)
    learned = list(run.stage(stage)["tasks"])
    if task is not None and task not in learned:
        raise RunError(f"{run.folder} has not learned a task {task!r}; it has learned {', '.join(learned)}.")
    paths = [path for each in images for path in (find_images(each) if places.holds_files(each) else [each])]
    skipped: list[ImageError] = []
    guess = _facts if run.config.learn == "facts" else _classes
    try:
        return guess(run, paths, task, top, stage, skipped.append if skip_unreadable else None)
    except ImageError:
        if not skip_unreadable:
            check_readable(paths)  # finds the others too
        raise
    finally:
        for error in skipped:
            say(f"Skipped: {error}")


def _facts(run: Run, paths: Sequence[Path], task: str | None, top: int, stage: int, on_error: OnError) -> list[Guess]:
    tasks = {name: facts for name, facts in taught(run, stage).items() if task in (None, name)}
    known = {fact: name for name, facts in tasks.items() for fact in facts}
    facts, labels = list(known), [(name, str(fact)) for fact, name in known.items()]
    language, calibration = run.language(), calibration_of(run, stage)
    vectors, kept = embed_images(load_model(run, stage), paths, on_error=on_error)
    chosen = [paths[place] for place in kept]
    if calibration is None:
        return _best(chosen, fact_scores(vectors, *language.embed(facts)).T, labels, "score", top)
    chances = calibration.facts_of(vectors, facts, language)
    return _best(
        chosen, *_open(chances, labels, possible=task is None and calibration.beliefs.open), "probability", top
    )


def _classes(run: Run, paths: Sequence[Path], task: str | None, top: int, stage: int, on_error: OnError) -> list[Guess]:
    if (values := run.tasks_json().get("values")) is not None:
        raise RunError(f"{run.folder} learned from rows of {values} numbers, not from images; it cannot predict yours.")
    model = load_model(run, stage)
    learned = class_names(run)[: len(run.stage(stage)["tasks"])]
    heads = [number for number, (name, _) in enumerate(learned) if task in (None, name)]
    if model.suffix.one_head:
        heads = heads[-1:]
    labels = [(learned[head][0], label) for head in heads for label in learned[head][1]]
    scores, kept = score_images(model, paths, heads, on_error=on_error)
    chosen = [paths[place] for place in kept]
    calibration = class_calibration(run, stage)
    if calibration is None:
        return _best(chosen, np.concatenate([_softmax(each) for each in scores], axis=1), labels, "confidence", top)
    told = task is not None
    chances = calibration.probabilities(scores, heads, told=told)
    return _best(chosen, *_open(chances, labels, possible=not told and calibration.beliefs.open), "probability", top)


def _softmax(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    raised = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    chances: NDArray[np.float64] = raised / raised.sum(axis=1, keepdims=True)
    return chances


def _open(chances: NDArray[np.float64], labels: Sequence[Label], *, possible: bool) -> tuple[NDArray, list[Label]]:
    """Probabilities [N, C + 1] with their labels; without "none of these" where that is no answer."""
    return (chances, [*labels, ("", NONE)]) if possible else (chances[:, :-1], [*labels])


def _best(paths: Sequence[Path], values: NDArray, labels: Sequence[Label], measure: str, top: int) -> list[Guess]:
    return [
        Guess(str(path), labels[place][0], labels[place][1], measure, float(row[place]))
        for path, row in zip(paths, values, strict=True)
        for place in np.argsort(-row, kind="stable")[:top].tolist()
    ]
