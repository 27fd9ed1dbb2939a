"""The result of a query."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factlearn.facts import UNIT_NAMES, Fact
from factlearn.retrieval.items import facts_of, metadata_of
from factlearn.retrieval.search import Nearest


@dataclass(frozen=True)
class Hit:
    """An image that answers a query.

    Attributes:
        id: the image's id.
        path: where the image was when it was indexed.
        score: minus the weighted sum of squared distances over the units the query names; higher is better. When
            several facts are asked for together, the worst score. For facts that were never taught, see
            `factlearn.retrieval.composing`.
        scores: what each unit adds to it: minus its squared distance, for the fact that `score` belongs to.
        fact: the fact the image is known to show, if any; the first of several.
        metadata: the image's metadata.
        model: the fingerprint of the model that embedded it.
        more: further facts the image is known to show.
        probability: that the image shows what was asked for, see `factlearn.evaluation.confidence`; None if nothing
            tells.
    """

    id: str
    path: Path
    score: float
    scores: Mapping[str, float]
    fact: Fact | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    more: tuple[Fact, ...] = ()
    probability: float | None = None

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts the image is known to show."""
        return () if self.fact is None else (self.fact, *self.more)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        fact = None if self.fact is None else str(self.fact)
        return {
            "id": self.id,
            "path": str(self.path),
            "score": self.score,
            "scores": dict(self.scores),
            "fact": fact,
            "facts": list(map(str, self.facts)),
            "metadata": dict(self.metadata),
            "model": self.model,
            "probability": self.probability,
        }


@dataclass(frozen=True)
class ShownFact:
    """A fact that an image shows.

    Attributes:
        fact: one that the index knows.
        score: the evidence for it, fair to facts with one, two or three units (see `factlearn.retrieval.fitting`).
        probability: that it is what the image shows; None if nothing tells.
    """

    fact: Fact
    score: float
    probability: float | None = None


def make_hits(
    answer: Nearest, items: Sequence[Mapping[str, Any]], probabilities: Sequence[float | None] | None = None
) -> list[Hit]:
    """The hits of an answer, given the item of each image, and the probability that it shows what was asked for."""
    chances = [None] * len(items) if probabilities is None else probabilities
    return [
        Hit(
            id=item["id"],
            path=Path(item["path"]),
            score=float(score),
            scores={name: value for name, value in zip(UNIT_NAMES, by_unit, strict=True) if not math.isnan(value)},
            fact=next(iter(facts), None),
            metadata=metadata_of(item),
            model=item["model"],
            more=facts[1:],
            probability=chance,
        )
        for item, facts, score, by_unit, chance in zip(
            items, map(facts_of, items), answer.scores, answer.by_unit.tolist(), chances, strict=True
        )
    ]


def best_of(rankings: Iterable[Sequence[Hit]], weights: NDArray[np.float64]) -> list[Hit]:
    """The hits of several rankings as one: each image once, where its score per unit compared is best; ties by id."""
    weight = dict(zip(UNIT_NAMES, weights.tolist(), strict=True))

    def rank(hit: Hit) -> tuple[float, str]:
        return -hit.score / sum(weight[unit] for unit in hit.scores), hit.id

    best: dict[str, Hit] = {}
    for hit in sorted((hit for hits in rankings for hit in hits), key=rank):
        best.setdefault(hit.id, hit)
    return list(best.values())
