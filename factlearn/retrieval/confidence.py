"""How likely hits show what was asked for, by what the models of an index were calibrated with.

Each image is judged by the calibration of the model that embedded it. An index made by hand, or by a run without
held-out photos, has none, and its hits have no probability.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from factlearn.evaluation.confidence import FactCalibration, is_taught
from factlearn.facts import Fact, FactQuery
from factlearn.language import LanguageSpace
from factlearn.retrieval.about import ModelEntry
from factlearn.retrieval.composing import Composition, Model, has_unit
from factlearn.retrieval.hits import Hit
from factlearn.retrieval.options import weights_of
from factlearn.retrieval.sentences import Reading
from factlearn.retrieval.verdicts import merged

SURE = 0.5
"""Below this probability, the model does not see the fact."""
BY_MEANING = "never taught; answered by word meaning"
BY_UNITS = "never taught; answered by what was taught of each word"
_REMEMBERED = 4096


class Confidence:
    """The calibrations of an index's models."""

    def __init__(self, models: Mapping[str, ModelEntry], known: Sequence[Fact], language: LanguageSpace) -> None:
        self.models, self.known, self.language = models, known, language

    @cached_property
    def _calibrations(self) -> dict[str, FactCalibration]:
        found = {name: entry.calibration for name, entry in self.models.items()}
        return {name: FactCalibration.from_json(raw) for name, raw in found.items() if raw is not None}

    @cached_property
    def _taught(self) -> dict[str, list[Fact]]:
        return {
            name: [*self.known] if entry.taught is None else [Fact.parse(fact) for fact in entry.taught]
            for name, entry in self.models.items()
        }

    @property
    def taught(self) -> list[Fact]:
        """The facts that the newest model was taught; all known ones where that was not recorded."""
        return self._taught[list(self.models)[-1]]

    def probabilities(
        self, vectors: NDArray[np.float32], models: Sequence[str], asked: Sequence[FactQuery]
    ) -> list[float | None]:
        """The probability that each image [N, 3, D] shows all that is asked for; None where nothing tells.

        Facts that are parts of one fact are looked at as one; of others, the least likely counts.
        """
        whole = merged(asked)
        queries = list(asked) if whole is None else [whole]
        found: list[float | None] = [None] * len(models)
        for name in self._calibrations.keys() & set(models):
            rows = [row for row, model in enumerate(models) if model == name]
            each = [
                self._calibrations[name].probabilities(vectors[rows], query, self._taught[name], self.language)
                for query in queries
            ]
            known = [chances for chances in each if chances is not None]
            if len(known) == len(queries):
                for row, chance in zip(rows, np.min(known, axis=0).tolist(), strict=True):
                    found[row] = chance
        return found

    def of_facts(self, vector: NDArray[np.float32], facts: Sequence[Fact]) -> list[float | None]:
        """The probability that an image [3, D] of the newest model shows each fact; None for those never taught."""
        name = list(self.models)[-1]
        if name not in self._calibrations:
            return [None] * len(facts)
        taught = self._taught[name]
        chances = self._calibrations[name].facts_of(vector[None], taught, self.language)[0].tolist()
        by_fact = dict(zip(taught, chances, strict=False))
        return [by_fact.get(fact) for fact in facts]

    def never_taught(self, asked: Reading, weights: Sequence[float] | None = None) -> dict[FactQuery, str]:
        """The facts to show, of all that is asked for, that no taught fact answers, each with how it is answered."""
        queries = [asked.query, *asked.any_of, *asked.also]
        composed = len(queries) == 1 and self.composition(asked.query, weights_of(weights)) is not None
        how = BY_UNITS if composed else BY_MEANING
        return {query: how for query in queries if not self._is_taught(query)}

    def composition(self, query: FactQuery, weights: NDArray[np.float64]) -> Composition | None:
        """How to look for a fact that was never taught by its units; None if it was taught, or a unit was not.

        Also None if a model of the index has no calibration, without which its distances say nothing of beliefs.
        """
        if self._calibrations.keys() != self.models.keys() or self._is_taught(query):
            return None
        models = {name: Model(self._calibrations[name], self._taught[name]) for name in self.models}
        found = Composition(query, models, self.language, weights)
        return found if all(has_unit(self.taught, unit, place).any() for place, unit in found.units) else None

    @cached_property
    def _is_taught(self) -> Callable[[FactQuery], bool]:
        return lru_cache(_REMEMBERED)(lambda query: is_taught(query, self.taught))


def seen_until(hits: Sequence[Hit], sure: float = SURE) -> int | None:
    """How many hits there are down to the last one that the model sees; None if no hit has a probability."""
    if all(hit.probability is None for hit in hits):
        return None
    return max(
        (rank for rank, hit in enumerate(hits, 1) if hit.probability is None or hit.probability >= sure), default=0
    )
