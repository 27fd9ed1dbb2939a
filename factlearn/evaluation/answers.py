"""Answers to "what does this image show?": calibrated one by one, "none of these" among them.

Beliefs (`beliefs.py`) add up to 1 but are not sharp enough where they are fitted with few numbers. The first answers of
each held-out photo, the r-th counting 1 / r, tell what a belief is worth: p = sigmoid(slope logit(belief) + constant).
Each photo also counts as one of a task never taught: its own task's facts or classes are left out, and the right answer
is none of these.
"""

from collections.abc import Sequence

import numpy as np

from factlearn.evaluation.calibration import Bools, Floats, expected_calibration_error, fit_logistic, sigmoid

NONE = "none of these"
_ANSWERS = 5
_LEAST = 1e-12


def with_untaught(shares: Floats, labels: Bools, own: Bools, tasks: int) -> tuple[Floats, Bools, Floats]:
    """Beliefs about photos [N, C + 1], which are right, and what each row counts: as it is, and as if never taught."""
    right = np.pad(labels, ((0, 0), (0, 1)))
    if tasks < 2:
        return shares, right, np.ones(len(shares))
    left = np.where(np.pad(own, ((0, 0), (0, 1))), 0.0, shares)
    left /= np.maximum(left.sum(axis=1, keepdims=True), _LEAST)
    none = np.zeros_like(right)
    none[:, -1] = True
    weights = np.repeat([1.0, 1 / tasks], len(shares))
    return np.concatenate([shares, left]), np.concatenate([right, none]), weights


def fit_answers(shares: Floats, right: Bools, weights: Floats) -> tuple[float, float]:
    """Slope and constant, by the first answers."""
    order = np.argsort(-shares, axis=1, kind="stable")[:, :_ANSWERS]
    best, good = np.take_along_axis(shares, order, axis=1), np.take_along_axis(right, order, axis=1)
    counts = weights[:, None] / np.arange(1, best.shape[1] + 1)
    slope, constant = fit_logistic(_logit(best).reshape(-1, 1), good.ravel(), counts.ravel()).tolist()
    return slope, constant


def answered(shares: Floats, numbers: Sequence[float] | None) -> Floats:
    """Beliefs as calibrated answers; what is impossible stays so."""
    if numbers is None:
        return shares
    return np.where(shares > 0, sigmoid(numbers[0] * _logit(shares) + numbers[1]), 0.0)


def first_answer_error(shares: Floats, right: Bools, weights: Floats, numbers: Sequence[float]) -> float:
    """The expected calibration error of the first answers."""
    first = shares.argmax(axis=1)[:, None]
    chances = np.take_along_axis(answered(shares, numbers), first, axis=1)[:, 0]
    return expected_calibration_error(chances, np.take_along_axis(right, first, axis=1)[:, 0], weights)


def _logit(shares: Floats) -> Floats:
    result: Floats = np.log(shares + _LEAST) - np.log(1 - shares + _LEAST)
    return result
