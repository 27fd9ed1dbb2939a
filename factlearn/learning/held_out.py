"""The held-out photos of a run of facts, and the calibration that its stages carry (see `evaluation.confidence`)."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from factlearn.data.samples import Sample
from factlearn.errors import RunError
from factlearn.evaluation.confidence import FactCalibration, HeldOut
from factlearn.facts import Fact
from factlearn.language import LanguageSpace
from factlearn.learning.runs import Run


def calibrate(
    samples: Sequence[Sample],
    vectors: NDArray[np.float32],
    tasks: Mapping[str, Collection[Fact]],
    language: LanguageSpace,
) -> FactCalibration | None:
    """The calibration by labelled photos and their vectors; a photo listed several times shows all its facts."""
    rows: dict[Path, int] = {}
    shown: dict[Path, set[Fact]] = {}
    for row, sample in enumerate(samples):
        if sample.fact is not None:
            rows.setdefault(sample.path, row)
            shown.setdefault(sample.path, set()).update(sample.facts)
    if not rows:
        return None
    chosen = list(rows.values())
    ids = [samples[row].id for row in chosen]
    return FactCalibration.fit(HeldOut(vectors[chosen], list(shown.values()), ids, tasks), language)


def calibration_of(run: Run, stage: int | None = None) -> FactCalibration | None:
    """The calibration that a stage of a run of facts left, or one from the vectors that a run made earlier stored.

    None where there were too few held-out photos.
    """
    from factlearn.learning.facts import seen_vectors

    stage = run.check_stage(stage)
    record = run.stage(stage)
    if "calibration" in record:
        try:
            found = record["calibration"]
            return None if found is None else FactCalibration.from_json(found)
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"The calibration of stage {stage} of {run.folder} is damaged ({error}).") from error
    vectors, seen = seen_vectors(run, stage)
    samples = [sample for sample, there in zip(run.data.of_split("test").samples, seen, strict=True) if there]
    return calibrate(samples, vectors[seen], taught(run, stage), run.language())


def taught(run: Run, stage: int) -> dict[str, tuple[Fact, ...]]:
    """The facts of each task that was learned by a stage."""
    learned = run.stage(stage)["tasks"]
    return {task.name: tuple(task.facts) for task in run.tasks().tasks if task.name in learned}
