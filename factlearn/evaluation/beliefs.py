"""What an image shows: a probability for every fact or class taught, and for "none of these".

Facts. Each unit a fact names counts for or against it by its squared distance, and a unit it does not have says
nothing, so that facts of one, two and three units compete fairly:

    logit of fact f  =  worth_f  +  sum over its units u of  bias_u - slope_u ||v_u - t_fu||^2

A fact that the model sees too often has a negative worth; one that was never taught has none.

Classes. Each head's scores are cut into what the head says of its own classes, and its energy, which says how much the
image is its concern at all:

    logit of class c of head h  =  sharpness_h log softmax_c(scores_h)  +  weight_h logsumexp(scores_h)  +  bias_h

"None of these" has the logit 0. All numbers are fitted on held-out photos (`fit_choices`), of which each also counts as
a photo of a task never taught, with weight 1 / (number of tasks): as if one more task of average size had not been
taught. Where there is a single task, nothing tells what "none" looks like, and its probability is 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from factlearn.evaluation.calibration import Bools, Floats, fit_choices, log_total
from factlearn.evaluation.scoring import masked_scores
from factlearn.facts import UNIT_NAMES

_SHUT = -1e3
"""A logit that leaves nothing to "none of these" of all others, which are shifted against it."""
_FREE = (None, None)
_POSITIVE = (0.0, None)
_PARTS = 3


@dataclass(frozen=True)
class FactBeliefs:
    """The numbers of the facts' formula above, by subject, predicate and object.

    Attributes:
        slope: how much a squared distance counts.
        bias: what a unit is worth that fits perfectly.
        worth: of each fact it was fitted on, in their order.
        open: whether "none of these" is possible.
    """

    slope: tuple[float, ...]
    bias: tuple[float, ...]
    worth: tuple[float, ...] = ()
    open: bool = True

    @classmethod
    def fit(
        cls, vectors: NDArray, targets: NDArray, mask: NDArray, wanted: Floats, own: Bools, tasks: int
    ) -> "FactBeliefs":
        """Fitted on photos [N, 3, D] and facts [F, 3, D]; `wanted` and `own` are [N, F], see `fit_choices`."""
        mask = np.asarray(mask, bool)
        alone = [mask & (np.arange(_PARTS) == unit) for unit in range(_PARTS)]
        named = [each.any(axis=1).astype(np.float64) for each in alone]
        scores = [masked_scores(vectors, targets, each).T for each in alone]
        usual = np.array([score.sum() / max(len(score) * n.sum(), 1) for score, n in zip(scores, named, strict=True)])
        scores = [score - usual[unit] * named[unit] for unit, score in enumerate(scores)]  # quicker to fit

        def forward(numbers: Floats) -> Floats:
            logits: Floats = np.tile(numbers[2 * _PARTS :], (len(wanted), 1))
            for unit in range(_PARTS):
                logits += numbers[unit] * scores[unit] + numbers[_PARTS + unit] * named[unit]
            return logits

        def backward(gradient: Floats) -> Floats:
            each_fact = gradient.sum(axis=0)
            slopes = [float((gradient * score).sum()) for score in scores]
            return np.array([*slopes, *(float(each_fact @ each) for each in named), *each_fact])

        start = np.array([5.0] * _PARTS + [1.0] * _PARTS + [0.0] * len(mask))
        bounds = [_POSITIVE] * _PARTS + [_FREE] * (_PARTS + len(mask))
        found = fit_choices(forward, backward, start, bounds, wanted, own, 1 / tasks if tasks > 1 else 0.0)
        slope, bias, worth = np.split(found, [_PARTS, 2 * _PARTS])
        bias = bias - slope * usual
        return cls(tuple(slope.tolist()), tuple(bias.tolist()), tuple(worth.tolist()), tasks > 1)

    def shares(self, vectors: NDArray, targets: NDArray, mask: NDArray, worth: Sequence[float] = ()) -> Floats:
        """The probability of each fact, and of none of these last: [N, F + 1].

        Args:
            worth: of each of these facts; by default they are those it was fitted on.
        """
        root = np.sqrt(np.asarray(self.slope))[:, None]
        mask = np.asarray(mask, bool)
        known = mask @ np.asarray(self.bias) + np.asarray(worth or self.worth or (0.0,))
        return with_none((masked_scores(vectors * root, targets * root, mask) + known[:, None]).T, possible=self.open)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"slope": list(self.slope), "bias": list(self.bias), "worth": list(self.worth), "open": self.open}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """What `to_json` gave."""
        slope, bias = tuple(map(float, raw["slope"])), tuple(map(float, raw["bias"]))
        if len(slope) != len(UNIT_NAMES) or len(bias) != len(UNIT_NAMES):
            raise ValueError("a calibration has three slopes and three biases")
        return cls(slope, bias, tuple(map(float, raw.get("worth", ()))), bool(raw["open"]))


@dataclass(frozen=True)
class HeadBeliefs:
    """The numbers of the classes' formula above: sharpness, weight and bias of each head."""

    heads: tuple[tuple[float, float, float], ...]
    open: bool = True

    @classmethod
    def fit(
        cls, scores: Sequence[Floats], wanted: Floats, own: Bools, before: Sequence[tuple[float, float, float]] = ()
    ) -> "HeadBeliefs":
        """Fitted on the scores [N, classes] of each head.

        Args:
            before: the numbers of earlier heads; a head of which no photo is left keeps them.
        """
        parts = [_parts(each) for each in scores]
        centre = np.array([float(energy.mean()) for _, energy in parts])
        spread = np.array([max(float(energy.std()), 1e-9) for _, energy in parts])
        parts = [(own_, (e - centre[h]) / spread[h]) for h, (own_, e) in enumerate(parts)]  # quicker to fit
        cuts = np.cumsum([each.shape[1] for each in scores])[:-1]

        def forward(numbers: Floats) -> Floats:
            return _logits(parts, numbers.reshape(-1, _PARTS))

        def backward(gradient: Floats) -> Floats:
            moved = []
            for (chances, energy), each in zip(parts, np.split(gradient, cuts, axis=1), strict=True):
                moved += [float((each * chances).sum()), float((each * energy).sum()), float(each.sum())]
            return np.array(moved)

        seen = [bool(each.any()) for each in np.split(wanted, cuts, axis=1)]
        start: list[float] = []
        bounds: list[tuple[float | None, float | None]] = []
        for head, has_photos in enumerate(seen):
            keeps = head < len(before) and not has_photos
            sharpness, weight, bias = before[head] if keeps else (1.0, 1.0, 0.0)
            numbers = (sharpness, weight * spread[head], bias + weight * centre[head])
            start += numbers
            bounds += [(value, value) for value in numbers] if keeps else [_POSITIVE, _FREE, _FREE]
        none = 1 / len(scores) if len(scores) > 1 else 0.0
        found = fit_choices(forward, backward, np.array(start), bounds, wanted, own, none).reshape(-1, _PARTS)
        weights = found[:, 1] / spread
        heads = np.column_stack([found[:, 0], weights, found[:, 2] - weights * centre])
        return cls(tuple((float(a), float(b), float(c)) for a, b, c in heads), len(scores) > 1)

    def shares(self, scores: Sequence[Floats], heads: Sequence[int], *, told: bool = False) -> Floats:
        """The probability of each class of some heads, and of none of these last, given the scores of these heads.

        Args:
            told: the task is known, so that "none of these" is impossible.
        """
        numbers = np.array([self.heads[head] for head in heads])
        return with_none(_logits([_parts(each) for each in scores], numbers), possible=self.open and not told)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"heads": [list(each) for each in self.heads], "open": self.open}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """What `to_json` gave."""
        return cls(tuple((float(a), float(b), float(c)) for a, b, c in raw["heads"]), bool(raw["open"]))


def _parts(scores: Floats) -> tuple[Floats, Floats]:
    scores = np.asarray(scores, np.float64)
    largest = scores.max(axis=1, keepdims=True)
    energy = largest + np.log(np.exp(scores - largest).sum(axis=1, keepdims=True))
    return scores - energy, energy


def _logits(parts: Sequence[tuple[Floats, Floats]], numbers: Floats) -> Floats:
    columns = [
        row[0] * chances + row[1] * energy + row[2] for (chances, energy), row in zip(parts, numbers, strict=True)
    ]
    return np.concatenate(columns, axis=1)


def with_none(logits: Floats, *, possible: bool) -> Floats:
    """The softmax over candidates and none of these, which comes last."""
    if not possible:
        logits = logits - logits.max(axis=1, keepdims=True) - _SHUT
    total = log_total(logits)[:, None]
    return np.concatenate([np.exp(logits - total), np.exp(-total)], axis=1)
