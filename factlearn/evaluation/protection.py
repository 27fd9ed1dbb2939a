"""How the protected facts or classes of a run, and the rest, have fared."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

PROTECTED, REST, KNOWN, SINCE = "protected", "rest", "known then", "learned since"


@dataclass(frozen=True)
class Fate:
    """One group of facts or classes, at the stage from which it is protected and now.

    Attributes:
        group: `protected`, `rest` (what else was known then) or `learned since`; `known then` for all that was known
            where images without labels are protected.
        count: number of facts or classes in it.
        before: the measure in each gallery when protection began; None for what was learned since.
        now: the measure in each gallery after the last stage.
    """

    group: str
    count: int
    before: tuple[float | None, float | None]
    now: tuple[float | None, float | None]


@dataclass(frozen=True)
class Protection:
    """Before and after of what is protected, in two galleries.

    Facts are judged among the images of their own group, as in the paper's Figure 7, and among all test images, where
    everything else competes with them; classes by a network that is told the task of an image, and by one that is not.

    Attributes:
        measure: MAP or accuracy.
        galleries: what the two columns of each moment are.
        only: whether importance is that of the protected part alone.
        names: of the protected facts or classes; empty where images without labels are protected.
        began: what was learned last when protection began.
        ended: what was learned last of all.
        fates: one per group that is not empty.
    """

    measure: str
    galleries: tuple[str, str]
    only: bool
    names: tuple[str, ...]
    began: str
    ended: str
    fates: Sequence[Fate]

    @property
    def learned_on(self) -> bool:
        """Whether anything was learned since."""
        return self.began != self.ended

    def fate(self, group: str) -> Fate | None:
        """The group of this name, if it is not empty."""
        return next((fate for fate in self.fates if fate.group == group), None)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)
