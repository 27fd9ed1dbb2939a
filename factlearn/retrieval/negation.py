"""Whether images show an unwanted fact: on the units it names, it is about as near as the nearest known fact.

How near is near is measured on each image's own scale, so that it means the same for sure and for unsure vectors: 0 is
the distance of the nearest other fact, 1 that of an average one. A fact up to `margin` on this scale is taken to be
shown. A margin of 0 excludes only images to which nothing is nearer, and lets through every noisy one; the default
also excludes those for which the unwanted fact is a serious contender.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.evaluation.scoring import unit_scores
from factlearn.facts import Fact, FactQuery
from factlearn.language import LanguageSpace

MARGIN = 0.4
"""How far beyond the nearest other fact an unwanted one still counts as shown."""


def showing_any(
    vectors: NDArray[np.float32],
    unwanted: Sequence[FactQuery],
    facts: Sequence[Fact],
    language: LanguageSpace,
    margin: float = MARGIN,
) -> NDArray[np.bool_]:
    """Which images [N, 3, D] show an unwanted fact, given the known facts.

    Raises:
        FactIndexError: if no other fact is known on the units that an unwanted one names.
    """
    known = language.embed(facts)
    found = np.zeros(len(vectors), bool)
    for query in unwanted:
        (target,), (mask,) = language.embed([query])
        rivals = _rivals_of(target, mask, *known)
        if not len(rivals):
            raise FactIndexError(f"The index knows no other fact to compare {query} with; leave it out of the query.")
        found |= _shows(vectors, target, mask, rivals, margin)
    return found


def _rivals_of(
    target: NDArray[np.float32], mask: NDArray[np.bool_], known: NDArray[np.float32], masks: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Other targets of known facts on the units that a fact names: distinct [R, 3, D], open units zero."""
    others = known[(masks >= mask).all(axis=1)]
    rivals = np.unique(np.where(mask[:, None], others, 0), axis=0)
    return rivals[(rivals != np.where(mask[:, None], target, 0)).any(axis=(1, 2))]  # type: ignore[no-any-return]


def _shows(
    vectors: NDArray[np.float32],
    target: NDArray[np.float32],
    mask: NDArray[np.bool_],
    rivals: NDArray[np.float32],
    margin: float,
) -> NDArray[np.bool_]:
    """Which images [N, 3, D] are about as near to a fact as to the nearest of its rivals."""
    distance = -(unit_scores(vectors, target) * mask).sum(axis=1)
    others = np.stack([-(unit_scores(vectors, rival) * mask).sum(axis=1) for rival in rivals])
    nearest, mean = others.min(axis=0), others.mean(axis=0)
    shown: NDArray[np.bool_] = distance <= nearest + margin * (mean - nearest)
    return shown
