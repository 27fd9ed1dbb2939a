"""What can be said of an adaptation before anything is learned with it: how firmly what was learned is held now.

    agreement   sum min(whole / |whole|, part / |part|)     how alike the importances of part and whole are spread
    kept        sum min(new, old) / |old|                   how much of the importance that held everything is left
    firmness    |new| / |old|                               how firmly the average parameter is held

`kept` is what harm shows in. Adding to the importance leaves all of it. Importance of a part alone leaves less the less
the part agrees with the whole, and what is no longer held drifts onto the facts that are.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

KEPT = 0.9
"""Below this, adapting is not expected to help among all images."""

Omega = Mapping[str, Tensor]


@dataclass(frozen=True)
class Outlook:
    """How an adaptation changed the importance, and what to expect of that.

    Attributes:
        agreement: between the importance of what is protected and that of all learned so far, 0 to 1.
        kept: share of the importance before that the one now still has, 0 to 1.
        firmness: the mean importance now in units of the one before.
        strength: lambda of the run.
    """

    agreement: float
    kept: float
    firmness: float
    strength: float

    @classmethod
    def of(cls, before: Omega, part: Omega, now: Omega, strength: float) -> "Outlook":
        """Compare the importance before and now, and that of the protected part."""
        old, mine, new = (_flat(omega, before) for omega in (before, part, now))
        total, share = float(old.sum()), float(mine.sum())
        if not total or not share:
            return cls(0.0, 1.0, 1.0, strength)
        return cls(
            agreement=float(torch.minimum(old / total, mine / share).sum()),
            kept=float(torch.minimum(old, new).sum()) / total,
            firmness=float(new.sum()) / total,
            strength=strength,
        )

    def warnings(self) -> list[str]:
        """Why adapting will not help, with numbers; none if nothing speaks against it."""
        if not self.strength:
            return ["lambda is 0, so no importance holds anything: adapting changes nothing. Set strategy.lambda."]
        if self.kept < KEPT:
            return [
                f"only {self.kept:.0%} of the importance that held what was learned so far is kept, so the rest may "
                "drift onto what is protected; leave out --only to keep all of it."
            ]
        return []

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, the warnings included."""
        return {**asdict(self), "warnings": self.warnings()}


def _flat(omega: Omega, like: Omega) -> Tensor:
    """All values of the parameters that `like` has, one after the other."""
    return torch.cat([omega[name].detach().double().cpu().ravel() for name in like])
