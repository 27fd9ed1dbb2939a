"""The result of a query."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factlearn.facts import UNIT_NAMES, Fact
from factlearn.retrieval.items import metadata_of
from factlearn.retrieval.search import Nearest


@dataclass(frozen=True)
class Hit:
    """An image that answers a query.

    Attributes:
        id: the image's id.
        path: where the image was when it was indexed.
        score: minus the weighted sum of squared distances over the units the query names; higher is better. When
            several facts are asked for together, the worst score.
        scores: minus the squared distance of each unit, for the fact that `score` belongs to.
        fact: the fact the image is known to show, if any.
        metadata: the image's metadata.
        model: the fingerprint of the model that embedded it.
    """

    id: str
    path: Path
    score: float
    scores: Mapping[str, float]
    fact: Fact | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    model: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        fact = None if self.fact is None else str(self.fact)
        return {
            "id": self.id,
            "path": str(self.path),
            "score": self.score,
            "scores": dict(self.scores),
            "fact": fact,
            "metadata": dict(self.metadata),
            "model": self.model,
        }


@dataclass(frozen=True)
class ShownFact:
    """A fact that an image shows.

    Attributes:
        fact: one that the index knows.
        score: minus the mean squared distance over its units, so that facts with one, two or three units compare.
    """

    fact: Fact
    score: float


def make_hits(answer: Nearest, items: Sequence[Mapping[str, Any]]) -> list[Hit]:
    """The hits of an answer, given the item of each image."""
    return [
        Hit(
            id=item["id"],
            path=Path(item["path"]),
            score=float(score),
            scores={name: value for name, value in zip(UNIT_NAMES, by_unit, strict=True) if not math.isnan(value)},
            fact=None if item["fact"] is None else Fact.parse(item["fact"]),
            metadata=metadata_of(item),
            model=item["model"],
        )
        for item, score, by_unit in zip(items, answer.scores, answer.by_unit.tolist(), strict=True)
    ]
