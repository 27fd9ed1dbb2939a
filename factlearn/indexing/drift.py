"""Drift: what a newer model does to vectors that an older one wrote, and which are worth re-embedding.

Targets live in a fixed language space, so vectors of both models may stand side by side. A newer model has learned
more, but may have forgotten some of what it knew: for those images the old vectors answer better. A sample shows where:
images are grouped by the fact they show (the known one, or else the nearest), and a group gains if the new model brings
its sampled images nearer to that fact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factlearn.evaluation.scoring import masked_scores
from factlearn.facts import Fact

Vectors = NDArray[np.float32]
Targets = tuple[NDArray[np.float32], NDArray[np.bool_]]


def shown_facts(
    vectors: Vectors, labels: Sequence[Fact | None], facts: Sequence[Fact], targets: Targets
) -> NDArray[np.intp]:
    """The number among `facts` of the fact each image shows: its label, or the nearest by mean distance a unit."""
    places = {fact: place for place, fact in enumerate(facts)}
    shown = np.array([places.get(label, -1) if label else -1 for label in labels], np.intp)
    unknown = np.flatnonzero(shown < 0)
    if len(unknown):
        mean = masked_scores(vectors[unknown], *targets) / targets[1].sum(axis=1)[:, None]
        shown[unknown] = mean.argmax(axis=0)
    return shown


def distances(vectors: Vectors, shown: NDArray[np.intp], targets: Targets) -> NDArray[np.float64]:
    """The mean squared distance a unit of each image to the fact it shows."""
    mask = targets[1][shown]
    apart = np.square(vectors.astype(np.float64) - targets[0][shown]).sum(axis=2)
    return (apart * mask).sum(axis=1) / mask.sum(axis=1)  # type: ignore[no-any-return]


def sample_groups(groups: NDArray[np.intp], each: int, seed: int) -> NDArray[np.intp]:
    """Up to `each` images of every group, in order."""
    generator = np.random.default_rng(seed)
    chosen = [generator.permutation(np.flatnonzero(groups == group))[:each] for group in np.unique(groups)]
    return np.sort(np.concatenate(chosen)) if chosen else np.empty(0, np.intp)


@dataclass(frozen=True)
class GroupDrift:
    """What the new model does to the images of one fact.

    Attributes:
        fact: the fact.
        images, sampled: how many there are, and were looked at.
        moved: the mean squared distance a unit between old and new vectors.
        before, after: the mean squared distance a unit to the fact.
    """

    fact: Fact
    images: int
    sampled: int
    moved: float
    before: float
    after: float

    @property
    def gains(self) -> bool:
        """Whether the new vectors are nearer to the fact."""
        return self.after < self.before

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**self.__dict__, "fact": str(self.fact), "gains": self.gains}


def measure_drift(
    groups: NDArray[np.intp],
    sampled: NDArray[np.intp],
    old: Vectors,
    new: Vectors,
    labels: Sequence[Fact | None],
    facts: Sequence[Fact],
    targets: Targets,
) -> list[GroupDrift]:
    """The drift of every group, from the old and new vectors of the sampled images; the worst loss first."""
    before = distances(old, groups[sampled], targets)
    seen = [labels[place] for place in sampled]
    after = distances(new, shown_facts(new, seen, facts, targets), targets)
    moved = np.square(old.astype(np.float64) - new).sum(axis=2).mean(axis=1)
    found = []
    for group in np.unique(groups[sampled]):
        rows = groups[sampled] == group
        values = (float(array[rows].mean()) for array in (moved, before, after))
        found.append(GroupDrift(facts[group], int((groups == group).sum()), int(rows.sum()), *values))
    return sorted(found, key=lambda drift: drift.before - drift.after)
