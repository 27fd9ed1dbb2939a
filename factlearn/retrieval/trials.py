"""Measurements made while optimizing an index."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Trial:
    """A way to search, measured.

    Attributes:
        kind: how it searches, such as `flat`.
        settings: of the kind.
        recall_full, recall_wild: share of the exact best found, for queries that name all units and for others.
        milliseconds: the median time of a query.
        memory: bytes held in memory while searching.
        note: why it was not measured, or "chosen".
    """

    kind: str
    settings: dict[str, Any]
    recall_full: float = 0.0
    recall_wild: float = 0.0
    milliseconds: float = 0.0
    memory: int = 0
    note: str = ""

    @property
    def recall(self) -> float:
        """The worse of the two."""
        return min(self.recall_full, self.recall_wild)
