"""Calibration: numbers that say how sure a model is, turned into probabilities that hold.

Of all answers given with a probability of 0.8, eight in ten should be right. The expected calibration error (ECE) says
how far that is missed: answers are put into ten bins of equal width by their probability, and the distance between the
mean probability of a bin and its share of right answers is averaged over the bins, each counting for its number of
answers (Guo et al. 2017).

A calibration is fitted on held-out photos and must be judged on others. `halves` cuts the photos in two by a hash of
their ids: fit on one half, measure on the other, both ways, average. What is used later is fitted on all of them.
"""

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

BINS = 10
_STEPS, _ENOUGH = 100, 1e-10
_SHRINK = 1e-3


def expected_calibration_error(probabilities: Floats, right: Bools, weights: Floats | None = None) -> float:
    """The mean over ten bins of |mean probability - share that is right|, weighted by the number of answers in each."""
    weights = np.ones(len(right)) if weights is None else weights
    bins = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
    off = np.bincount(bins, weights * (probabilities - right), BINS)
    return float(np.abs(off).sum() / weights.sum())


def halves(ids: Sequence[str]) -> Bools:
    """Which photos belong to the first half, by a hash of their ids: the same for every run and every order."""
    return np.array([name_hash(name) % 2 == 0 for name in ids], bool)


def name_hash(name: str) -> int:
    """A number that depends on a name alone."""
    return int.from_bytes(hashlib.sha256(name.encode(errors="surrogatepass")).digest()[:7], "big")


def sigmoid(values: Floats) -> Floats:
    """The logistic function, without overflow."""
    result: Floats = np.exp(-np.logaddexp(0, -values))
    return result


def fit_logistic(features: Floats, right: Bools, weights: Floats) -> Floats:
    """Coefficients [K + 1], the constant last, such that sigmoid(features @ c[:-1] + c[-1]) is the chance to be right.

    Minimises the weighted log-loss by Newton's method. As in Platt scaling (1999), the targets are (n+ + 1) / (n+ + 2)
    and 1 / (n- + 2) instead of 1 and 0, and coefficients of standardised features are shrunk a little, so that few or
    separable answers do not give certainty.
    """
    centre, spread = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-12)
    inputs = np.column_stack([(features - centre) / spread, np.ones(len(features))])
    good, bad = weights[right].sum(), weights[~right].sum()
    targets = np.where(right, (good + 1) / (good + 2), 1 / (bad + 2))
    shrink = np.diag([_SHRINK * weights.sum()] * features.shape[1] + [0.0])
    found = np.zeros(inputs.shape[1])
    for _ in range(_STEPS):
        chances = sigmoid(inputs @ found)
        gradient = inputs.T @ (weights * (chances - targets)) + shrink @ found
        curvature = (inputs * (weights * chances * (1 - chances) + 1e-12)[:, None]).T @ inputs + shrink
        step = np.linalg.solve(curvature, gradient)
        found -= step / max(1.0, np.abs(step).max() / 4)  # a whole step may overshoot where chances are near 0 or 1
        if np.abs(step).max() < _ENOUGH:
            break
    slopes = found[:-1] / spread
    return np.append(slopes, found[-1] - slopes @ centre)


def fit_choices(
    forward: Callable[[Floats], Floats],
    backward: Callable[[Floats], Floats],
    start: Floats,
    bounds: Sequence[tuple[float | None, float | None]],
    wanted: Floats,
    own: Bools,
    none_weight: float,
) -> Floats:
    """Parameters of a softmax over C candidates and "none of these", whose logit is 0, by maximum likelihood.

    Each photo counts once as it is, and once, with `none_weight`, as if its own task had never been taught: the
    candidates of that task are left out, and "none of these" is the right answer. The loss is convex, as logits are
    linear in the parameters.

    Args:
        forward: the logits [N, C] for parameters.
        backward: the gradient with respect to the parameters, given that with respect to the logits.
        start: parameters to begin with; others are shrunk towards them as if by one more photo.
        bounds: of each parameter.
        wanted: the share of each candidate in what a photo shows [N, C]; rows add up to 1.
        own: the candidates of each photo's own task [N, C].
        none_weight: 0 where no other task exists.
    """
    from scipy.optimize import minimize

    count = len(wanted)

    def loss(parameters: Floats) -> tuple[float, Floats]:
        logits = forward(parameters)
        total = log_total(logits)
        value = total.sum() - (wanted * logits).sum()
        gradient = np.exp(logits - total[:, None]) - wanted
        if none_weight:
            others = np.where(own, -np.inf, logits)
            rest = log_total(others)
            value += none_weight * rest.sum()
            gradient += none_weight * np.exp(others - rest[:, None])
        away = (parameters - start) / np.maximum(np.abs(start), 1)
        value += 0.5 * (away**2).sum()
        moved = backward(gradient) + away / np.maximum(np.abs(start), 1)
        return value / count, moved / count

    found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": 200, "ftol": 1e-8})
    result: Floats = np.asarray(found.x, np.float64)
    return result


def log_total(logits: Floats) -> Floats:
    """log(1 + sum of exp(logits)) of each row: the softmax's denominator with "none of these" in it."""
    largest = np.maximum(logits.max(axis=1, initial=-np.inf), 0)
    result: Floats = largest + np.log(np.exp(-largest) + np.exp(logits - largest[:, None]).sum(axis=1))
    return result
