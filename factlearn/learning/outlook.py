"""What an adaptation did, known before training continues: how firmly each part is held now.

    agreement   sum min(whole / |whole|, part / |part|)     how alike the importances of part and whole are spread
    kept        sum min(new, old) / |old|                   how much of the importance that held everything is left
    firmness    |new| / |old|                               how firmly the average parameter is held
    floor       min (new - old) / mean(old)                 how much more firmly the least important ones are held

Harm shows in `kept` and `floor`. Importance of a part alone keeps less the less the part agrees with the whole; what
is no longer held drifts, and may come to lie on the facts that are. A firmer hold without a floor drives the
parameters that are not held so far that everything is forgotten more.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

KEPT = 0.9
"""Below this, the rest ended lower than without adapting in the trials (docs/training.md), and nothing says how far the
protected facts suffer from that."""
FIRM, FLOOR = 2.0, 0.5
"""So firm a hold, or firmer, is not expected to help without so high a floor."""

Omega = Mapping[str, Tensor]


@dataclass(frozen=True)
class Outlook:
    """How an adaptation changed the importance, and what to expect from it.

    Attributes:
        agreement: between the importance of what is protected and that of all learned so far, 0 to 1.
        kept: share of the importance before that the one now still has, 0 to 1.
        firmness: the mean importance now in units of the one before.
        floor: the least that was added to any parameter, in units of the mean before.
        strength: lambda of the run.
        heads: whether each task's facts have a head of their own, which later tasks do not move.
    """

    agreement: float
    kept: float
    firmness: float
    floor: float
    strength: float
    heads: bool = False

    @classmethod
    def of(cls, before: Omega, part: Omega, now: Omega, strength: float, *, heads: bool = False) -> "Outlook":
        """Compare the importance before and now, and that of the protected part."""
        old, mine, new = (_flat(omega, before) for omega in (before, part, now))
        total, share = float(old.sum()), float(mine.sum())
        if not total or not share:
            return cls(0.0, 1.0, 1.0, 0.0, strength, heads)
        return cls(
            agreement=float(torch.minimum(old / total, mine / share).sum()),
            kept=float(torch.minimum(old, new).sum()) / total,
            firmness=float(new.sum()) / total,
            floor=max(0.0, float((new - old).min()) * len(old) / total),
            strength=strength,
            heads=heads,
        )

    def warnings(self) -> list[str]:
        """Reasons why adapting is unlikely to help, with numbers; empty if there are none."""
        if not self.strength:
            return ["lambda is 0, so no importance holds anything: adapting changes nothing. Set strategy.lambda."]
        if self.kept < KEPT:
            return [
                f"only {self.kept:.0%} of the importance of everything learned so far is kept: the rest will be "
                "forgotten more, and may end up close to what is protected; leave out --only to keep all of it."
            ]
        if self.firmness >= FIRM and self.floor < FLOOR:
            return [
                f"the average parameter is held {self.firmness:.1f} times as firmly as before, but the least important "
                f"ones hardly more ({self.floor:.1f} of the mean); they may move so far that everything is forgotten "
                "more. Raise strategy.protect_floor, or lower --weight."
            ]
        if self.heads:
            return [
                "with the posterior readout, each task has its own head, which later tasks do not move: little is "
                "forgotten, and in our trials protection changed MAP by only 0.001 to 0.002, up or down "
                "(docs/training.md)."
            ]
        return []

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, the warnings included."""
        return {**asdict(self), "warnings": self.warnings()}


def _flat(omega: Omega, like: Omega) -> Tensor:
    """All values of the parameters that `like` has, one after the other."""
    return torch.cat([omega[name].detach().double().cpu().ravel() for name in like])
