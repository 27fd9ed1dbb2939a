"""Whether images show a fact, for queries that must not: of all known facts it is the nearest on the units it names."""

import numpy as np
from numpy.typing import NDArray

from factlearn.evaluation.scoring import unit_scores


def rivals_of(
    target: NDArray[np.float32], mask: NDArray[np.bool_], known: NDArray[np.float32], masks: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """What else the known facts have on the units that a fact names: distinct targets [R, 3, D], open units zero."""
    others = known[(masks >= mask).all(axis=1)]
    rivals = np.unique(np.where(mask[:, None], others, 0), axis=0)
    return rivals[(rivals != np.where(mask[:, None], target, 0)).any(axis=(1, 2))]  # type: ignore[no-any-return]


def shows(
    vectors: NDArray[np.float32], target: NDArray[np.float32], mask: NDArray[np.bool_], rivals: NDArray[np.float32]
) -> NDArray[np.bool_]:
    """Which images [N, 3, D] are at least as near to a fact as to each of its rivals."""
    score = (unit_scores(vectors, target) * mask).sum(axis=1)
    shown = np.ones(len(vectors), bool)
    for rival in rivals:
        shown &= (unit_scores(vectors, rival) * mask).sum(axis=1) <= score
    return shown
