"""Whether images show an unwanted fact: of all known facts it is the nearest, on the units it names."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.evaluation.scoring import unit_scores
from factlearn.facts import Fact, FactQuery
from factlearn.language import LanguageSpace


def showing_any(
    vectors: NDArray[np.float32], unwanted: Sequence[FactQuery], facts: Sequence[Fact], language: LanguageSpace
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
        found |= _shows(vectors, target, mask, rivals)
    return found


def _rivals_of(
    target: NDArray[np.float32], mask: NDArray[np.bool_], known: NDArray[np.float32], masks: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Other targets of known facts on the units that a fact names: distinct [R, 3, D], open units zero."""
    others = known[(masks >= mask).all(axis=1)]
    rivals = np.unique(np.where(mask[:, None], others, 0), axis=0)
    return rivals[(rivals != np.where(mask[:, None], target, 0)).any(axis=(1, 2))]  # type: ignore[no-any-return]


def _shows(
    vectors: NDArray[np.float32], target: NDArray[np.float32], mask: NDArray[np.bool_], rivals: NDArray[np.float32]
) -> NDArray[np.bool_]:
    """Which images [N, 3, D] are at least as near to a fact as to each of its rivals."""
    score = (unit_scores(vectors, target) * mask).sum(axis=1)
    shown = np.ones(len(vectors), bool)
    for rival in rivals:
        shown &= (unit_scores(vectors, rival) * mask).sum(axis=1) <= score
    return shown
