"""Ridge regression from sums: the weights, the shrinkage, and how likely images are under the solution without them.

    W = (A + shrinkage * mean ||h||^2 * I)^-1 B,   A = sum [h, 1][h, 1]^T,   B = sum [h, 1] t^T

The bias, in the last row of W, is not shrunk. Weights and shrinkage need no image, so they do not depend on the order
in which images came. No test image is ever looked at.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from factlearn.errors import ModelError
from factlearn.lifelong.sums import Moments, with_one

SHRINKAGES = tuple(10 ** (exponent / 4) for exponent in range(-12, 13))
TEMPERATURES = tuple(10 ** (exponent / 10) for exponent in range(-25, 1))


@dataclass(frozen=True)
class Solution:
    """Weights, and how they were found.

    Attributes:
        weights: [features + 1, outputs], the bias in the last row.
        shrinkage: the one used.
        factor: the Cholesky factor of the shrunk A.
    """

    weights: Tensor
    shrinkage: float
    factor: Tensor

    def left_out(self, features: Tensor, targets: Tensor) -> Tensor:
        """What images that were learned would be given had each not been (leave-one-out, in closed form)."""
        rows, wanted = with_one(features.to(self.factor)), targets.to(self.factor)
        leverage = (rows.T * torch.cholesky_solve(rows.T, self.factor)).sum(0).clamp_max(1 - 1e-6)
        return wanted - (wanted - rows @ self.weights) / (1 - leverage[:, None])


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
    return Solution(torch.cholesky_solve(cross, factor), float(shrinkage), factor)


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


def unlikeliness(scores: Tensor, labels: Tensor) -> Tensor:
    """Minus the log-likelihood of each image's label under the softmax of its scores, at each of `TEMPERATURES`."""
    chances = [(scores / temperature).log_softmax(1) for temperature in TEMPERATURES]
    return -torch.stack([each.gather(1, labels[:, None])[:, 0] for each in chances], dim=1)
