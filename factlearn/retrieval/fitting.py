"""Which facts an image shows, judged fairly whatever their number of units.

A mean of squared distances favours facts of few units: subjects are easy to see, so that `<person, running>` has a
smaller mean than the right `<person, playing, tennis>`. Instead, each unit u a fact names counts as evidence for or
against it, `(b_u - d_u) / e_u`: the log-likelihood ratio, up to a factor, of Gaussian noise whose variance is that of
the position. `d_u` is the squared distance; `e_u` is the mean, over the images of the index, of the distance to the
nearest known unit of this position; `b_u` lies halfway between that and the distance to the second nearest. A unit that
is no nearer than a wrong one would be speaks against the fact, one that is nearer speaks for it, and a unit the fact
does not have says nothing: facts that share a subject differ only by what they say beyond it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from factlearn.evaluation.scoring import unit_scores
from factlearn.facts import UNIT_NAMES, Fact
from factlearn.language import LanguageSpace

SAMPLE = 1000
"""The number of images from which distances are estimated."""
_LEAST = 1e-9


@dataclass(frozen=True)
class Fitting:
    """What distances mean in an index: the expected ones, and those at which a unit says nothing, by position [3]."""

    expected: NDArray[np.float64]
    even: NDArray[np.float64]

    @classmethod
    def of(cls, vectors: NDArray[np.float32], facts: Sequence[Fact], language: LanguageSpace) -> "Fitting":
        """Estimated from images [N, 3, D] and the facts that an index knows."""
        expected, even = np.ones(len(UNIT_NAMES)), np.ones(len(UNIT_NAMES))
        for position in range(len(UNIT_NAMES)):
            units = sorted({fact.units[position] for fact in facts if fact.order > position})
            if not units or not len(vectors):
                continue
            targets = np.stack([language.unit(unit) for unit in units])
            part = vectors[:, position].astype(np.float64)
            distances = np.stack([np.square(part - target).sum(axis=-1) for target in targets])
            ordered = np.sort(np.sort(distances, axis=0)[:2], axis=1)  # sums that no order of images changes
            expected[position] = max(float(ordered[0].mean()), _LEAST)
            even[position] = float(ordered.mean())
        return cls(expected, even)

    def scores(
        self, vector: NDArray[np.float32], targets: NDArray[np.float32], mask: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """The evidence for each of F facts [F, 3, D] in an image [3, D]; above 0 speaks for it."""
        evidence = (unit_scores(targets, vector) + self.even) / self.expected
        total: NDArray[np.float64] = (evidence * mask).sum(axis=1)
        return total
