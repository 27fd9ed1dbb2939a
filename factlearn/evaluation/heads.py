"""The calibration of a classifier with one head per task: which class an image shows, or none of these.

A head knows its own classes alone, so that it is sure of something whatever it looks at. How the heads compare is
fitted on held-out photos of every task, see `beliefs.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from factlearn.evaluation.answers import answered, first_answer_error, fit_answers, with_untaught
from factlearn.evaluation.beliefs import HeadBeliefs
from factlearn.evaluation.calibration import Bools, Floats, halves, name_hash

_FEWEST_PHOTOS = 10
_MOST_CELLS = 500_000


@dataclass(frozen=True)
class HeadCalibration:
    """Three numbers for each head and two for the answers, and how well they do on photos they were not fitted on.

    Attributes:
        beliefs: how the heads compare.
        answer: slope and constant, see `answers.py`.
        photos: the number of photos they were fitted on.
        measured: `ece` of first answers; `task_free`, the share of photos whose class is found without being told the
            task, by the surest head and by these numbers, and `none`, the share of answers that are none of these to
            photos of a task left out. Each is fitted on one half of the photos and measured on the other, both ways.
    """

    beliefs: HeadBeliefs
    answer: tuple[float, float]
    photos: int
    measured: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        scores: Sequence[NDArray],
        tasks: NDArray[np.int64],
        labels: NDArray[np.int64],
        ids: Sequence[str],
        before: "HeadCalibration | None" = None,
    ) -> "HeadCalibration | None":
        """Fitted on held-out photos; None if there are few.

        Args:
            scores: of each head [N, classes].
            tasks, labels: of each photo [N].
            before: the calibration of an earlier stage, for heads of which no photo is left.
        """
        if len(labels) < _FEWEST_PHOTOS:
            return None
        most = max(_MOST_CELLS // sum(each.shape[1] for each in scores), 200)
        chosen = np.sort(np.argsort([name_hash(name) for name in ids], kind="stable")[:most])
        kept = [np.asarray(each, np.float64)[chosen] for each in scores]
        photos = _Photos(kept, tasks[chosen], labels[chosen], before.beliefs.heads if before else ())
        beliefs, answer = photos.fit(np.arange(len(chosen)))
        return cls(beliefs, answer, len(chosen), photos.measure(halves([ids[row] for row in chosen])))

    def probabilities(self, scores: Sequence[NDArray], heads: Sequence[int], *, told: bool = False) -> Floats:
        """The probability of every class of some heads, and of none of these last: [N, C + 1]; see `HeadBeliefs`."""
        shares = self.beliefs.shares(scores, heads, told=told)
        return shares if told else answered(shares, self.answer)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "beliefs": self.beliefs.to_json(), "answer": list(self.answer), "photos": self.photos,
            "measured": dict(self.measured),
        }  # fmt: skip

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """What `to_json` gave."""
        slope, constant = map(float, raw["answer"])
        return cls(HeadBeliefs.from_json(raw["beliefs"]), (slope, constant), int(raw["photos"]), dict(raw["measured"]))


@dataclass(frozen=True)
class _Photos:
    scores: Sequence[Floats]
    tasks: NDArray[np.int64]
    labels: NDArray[np.int64]
    before: Sequence[tuple[float, float, float]]

    def _right(self) -> tuple[Bools, Bools]:
        """Which class each photo shows, and which classes its task has: [N, C]."""
        widths = [each.shape[1] for each in self.scores]
        starts = np.cumsum([0, *widths])
        right = np.zeros((len(self.labels), starts[-1]), bool)
        right[np.arange(len(self.labels)), starts[self.tasks] + self.labels] = True
        return right, np.repeat(np.arange(len(widths)), widths)[None] == self.tasks[:, None]

    def _shares(self, beliefs: HeadBeliefs, rows: NDArray[np.intp]) -> tuple[Floats, Bools, Floats]:
        right, own = self._right()
        shares = beliefs.shares([each[rows] for each in self.scores], range(len(self.scores)))
        return with_untaught(shares, right[rows], own[rows], len(self.scores))

    def fit(self, rows: NDArray[np.intp]) -> tuple[HeadBeliefs, tuple[float, float]]:
        right, own = self._right()
        beliefs = HeadBeliefs.fit(
            [each[rows] for each in self.scores], right[rows].astype(np.float64), own[rows], self.before
        )
        return beliefs, fit_answers(*self._shares(beliefs, rows))

    def measure(self, first: Bools) -> dict[str, float]:
        if min(first.sum(), (~first).sum()) < _FEWEST_PHOTOS:
            return {}
        found = []
        for fitted in (first, ~first):
            beliefs, answer = self.fit(np.flatnonzero(fitted))
            rows = np.flatnonzero(~fitted)
            shares, right, weights = self._shares(beliefs, rows)
            known = len(rows)
            best = shares[:known, :-1].argmax(axis=1)
            answers = shares[known:].argmax(axis=1) == shares.shape[1] - 1
            found.append(
                {
                    "ece": first_answer_error(shares, right, weights, answer),
                    "task_free_surest_head": float(right[np.arange(known), self._surest(rows)].mean()),
                    "task_free": float(right[np.arange(known), best].mean()),
                    "none": float(answers.mean()) if len(answers) else 0.0,
                }
            )
        return {name: float(np.mean([each[name] for each in found])) for name in found[0]}

    def _surest(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The class that the head with the highest softmax gives."""
        chances = [each[rows] - each[rows].max(axis=1, keepdims=True) for each in self.scores]
        together = np.concatenate([np.exp(c) / np.exp(c).sum(axis=1, keepdims=True) for c in chances], axis=1)
        return together.argmax(axis=1)  # type: ignore[no-any-return]
