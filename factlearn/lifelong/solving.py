"""Ridge regression from sums alone: the weights, the shrinkage, and the temperature of a posterior.

    W = (A + shrinkage * mean ||h||^2 * I)^-1 B,   A = sum [h, 1][h, 1]^T,   B = sum [h, 1] t^T

The bias, in the last row of W, is not shrunk. No image is needed and none is looked at, so what is found does not
depend on the order in which images came.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from factlearn.errors import ModelError
from factlearn.lifelong.sums import Moments

SHRINKAGES = tuple(10 ** (exponent / 4) for exponent in range(-12, 13))
TEMPERATURES = tuple(10 ** (exponent / 20) for exponent in range(-50, 1))
_DRAWS = 8192


@dataclass(frozen=True)
class Solution:
    """Weights, and how they were found.

    Attributes:
        weights: [features + 1, outputs], the bias in the last row.
        shrinkage: the one used.
        freedom: effective number of parameters per output, the trace of the hat matrix.
    """

    weights: Tensor
    shrinkage: float
    freedom: float


def solve(moments: Moments, targets: Tensor, shrinkage: float | str) -> Solution:
    """Ridge regression of each label's images onto the label's target, a row of `targets`.

    Args:
        shrinkage: in units of the features' mean squared length, or `auto`.

    Raises:
        ModelError: if there is no stable solution.
    """
    targets = targets.to(moments.gram)
    cross = moments.rows.T @ targets
    if shrinkage == "auto":
        squares = (moments.counts * targets.square().sum(1)).sum()
        shrinkage = cross_validated(moments.gram, cross, squares)
    factor = shrunk_factor(moments.gram, float(shrinkage))
    weights = torch.cholesky_solve(cross, factor)
    freedom = float(torch.cholesky_solve(moments.gram, factor).diagonal().sum())
    return Solution(weights, float(shrinkage), freedom)


def shrunk_factor(gram: Tensor, shrinkage: float) -> Tensor:
    """The Cholesky factor of A with the shrinkage added to all of its diagonal but the bias's.

    Raises:
        ModelError: if there is no stable solution.
    """
    shrunk = gram.clone()
    diagonal = shrunk.diagonal()
    diagonal[:-1] += shrinkage * diagonal[:-1].sum() / shrunk[-1, -1]
    try:
        factor: Tensor = torch.linalg.cholesky(shrunk)
        return factor
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        raise ModelError(
            "ridge has no stable solution: the features hardly differ; increase strategy.shrinkage."
        ) from None


def cross_validated(gram: Tensor, cross: Tensor, squares: Tensor) -> float:
    """The shrinkage of least generalised cross-validation error, from the sums alone.

    GCV = n RSS / (n - 1 - sum_i e_i / (e_i + s))^2, with the eigenvalues e of the centred A.

    Args:
        squares: the sum of squared targets over all images.
    """
    count = gram[-1, -1]
    mean = gram[-1, :-1] / count
    centred = gram[:-1, :-1] - count * torch.outer(mean, mean)
    sums = cross[-1]
    moved = cross[:-1] - torch.outer(mean, sums)
    eigenvalues, vectors = torch.linalg.eigh(centred)
    eigenvalues = eigenvalues.clamp_min(0)
    projected = (vectors.T @ moved).square().sum(1)
    squares = squares - sums.square().sum() / count
    unit = gram.diagonal()[:-1].sum() / count
    errors = []
    for shrinkage in SHRINKAGES:
        damped = eigenvalues + shrinkage * unit
        residual = squares - (projected * (eigenvalues + 2 * shrinkage * unit) / damped.square()).sum()
        freedom = count - 1 - (eigenvalues / damped).sum()
        errors.append(float(residual / freedom.clamp_min(1e-3).square()))
    return SHRINKAGES[min(range(len(errors)), key=errors.__getitem__)]


def likely_temperature(moments: Moments, solution: Solution) -> float:
    """The temperature under which images would be likeliest, each by the solution without it, from the sums alone.

    An image of label f has scores that are normal around its label's mean score, with the covariance that images have
    within labels. Scores without the image itself are further from the indicators than those with it, by n / (n -
    freedom), as in generalised cross-validation. The draws are the same every time.
    """
    counts = moments.counts
    known = counts > 0
    weights = solution.weights
    means = (moments.rows[known] / counts[known, None]) @ weights
    scaled = moments.rows[known] / counts[known, None].sqrt()
    count = float(counts.sum())
    within = weights.T @ (moments.gram - scaled.T @ scaled) @ weights / count
    jitter = 1e-9 * float(within.diagonal().mean()) + 1e-15
    within.diagonal().add_(jitter)
    factor, failed = torch.linalg.cholesky_ex(within)
    if failed:
        factor = within.diagonal().clamp_min(0).sqrt().diag()
    labels = known.nonzero().flatten()
    draws = max(_DRAWS // len(labels), 2)
    noise = torch.randn(draws, len(counts), generator=torch.Generator().manual_seed(0), dtype=within.dtype) @ factor.T
    stretch = count / max(count - solution.freedom, 0.01 * count)
    grid = torch.tensor(TEMPERATURES, dtype=within.dtype)
    total = torch.zeros_like(grid)
    for place, label in enumerate(labels.tolist()):
        scores = (means[place] + noise) * stretch
        scores[:, label] += 1 - stretch
        for number, temperature in enumerate(TEMPERATURES):
            total[number] -= counts[label] * (scores / temperature).log_softmax(1)[:, label].mean()
    return TEMPERATURES[int(total.argmin())]
