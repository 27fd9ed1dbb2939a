"""How well images answer queries: the masked squared distance between three-part vectors.

    score(image, query) = - sum over the units u that the query names of ||v_u - t_u||^2

An image vector v and a query's target t have the parts subject, predicate and object; a unit the query
leaves open weighs nothing. Arrays are [count, 3, D]; a mask is bool [count, 3].
"""

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactlearnError

_CHUNK = 4096


def unit_scores(vectors: NDArray, target: NDArray) -> NDArray[np.float64]:
    """Minus the squared distance of each image to one target, by unit: [N, 3], by the plain definition."""
    difference = np.asarray(vectors, dtype=np.float64) - np.asarray(target, dtype=np.float64)
    result: NDArray[np.float64] = -np.square(difference).sum(axis=-1)
    return result


def masked_scores(vectors: NDArray, targets: NDArray, mask: NDArray) -> NDArray[np.float64]:
    """The score of each of N images for each of Q queries: [Q, N].

    Computed as matrix products in float64 of vectors centred on the targets, so that the difference of large
    squared norms keeps at least 12 digits for ordinary vectors; never above 0.

    Raises:
        FactlearnError: if the shapes do not fit or a number is not finite.
    """
    vectors, targets, mask = np.asarray(vectors), np.asarray(targets), np.asarray(mask, dtype=bool)
    check_parts("image vectors", vectors)
    check_parts("query targets", targets)
    if vectors.shape[1:] != targets.shape[1:] or mask.shape != targets.shape[:2]:
        raise FactlearnError(
            f"Vectors {vectors.shape}, targets {targets.shape} and mask {mask.shape} do not fit together; "
            "they must be [N, 3, D], [Q, 3, D] and [Q, 3] of one language space."
        )
    weights = mask[..., None].astype(np.float64)
    named = np.maximum(weights.sum(axis=0), 1)
    centre = (targets * weights).sum(axis=0) / named
    asked = (targets - centre) * weights
    constant = np.square(asked).sum(axis=(1, 2))[:, None]
    asked = asked.reshape(len(asked), -1)
    scores = np.empty((len(targets), len(vectors)))
    for start in range(0, len(vectors), _CHUNK):
        part = vectors[start : start + _CHUNK] - centre
        norms = np.square(part).sum(axis=-1)
        part = part.reshape(len(part), -1)
        scores[:, start : start + _CHUNK] = 2 * (asked @ part.T) - weights[..., 0] @ norms.T - constant
    return np.minimum(scores, 0, out=scores)


def fact_scores(vectors: NDArray, targets: NDArray, mask: NDArray) -> NDArray[np.float64]:
    """How well each of F facts fits each of N images: [F, N], minus the *mean* squared distance over a fact's units.

    A sum would favour facts of fewer units.
    """
    scores: NDArray[np.float64] = masked_scores(vectors, targets, mask) / np.asarray(mask).sum(axis=1)[:, None]
    return scores


def check_parts(what: str, vectors: NDArray) -> None:
    """Refuse an array that is not [count, 3, D] of finite numbers.

    Raises:
        FactlearnError: naming `what` and the first row that is not finite.
    """
    if vectors.ndim != 3 or vectors.shape[1] != 3 or not np.issubdtype(vectors.dtype, np.floating):
        raise FactlearnError(f"The {what} must be floats of shape [count, 3, D], not {vectors.dtype} {vectors.shape}.")
    finite = np.isfinite(vectors).all(axis=(1, 2))
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise FactlearnError(f"The {what} hold NaN or infinity (row {row}); the model may have diverged.")
