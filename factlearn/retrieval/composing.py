"""Facts that were never taught, of units that were: `<person, playing, guitar>` by a model that knows flute players and
guitars.

By its word vectors, such a fact lies among all that is played. Instead, each unit is looked for by itself. The belief
that an image shows a unit is the sum of its beliefs in the taught facts (`factlearn.evaluation.beliefs`) that have the
unit in its place. If none has, those that have it in another place count, and those with another unit in this place
count by cos^6 of the two word vectors: `<person, playing, instrument>` says a little of guitars. Images are ranked by

    score  =  sum over units u of  w_u r_u log(belief in u + 0.0001),      r_u = -log(facts with u / (all facts + 1))

so that a unit of few facts, which says more, counts for more than one of many. `w_u` are the weights of the query.

The power is a compromise between two cases on training photos held out: facts whose photos were left out, for which
exact words do best, and facts whose photos were taught by a wider word, such as `instrument`, for which lower powers
do. See `benchmarks/untaught.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from factlearn.evaluation.confidence import FactCalibration
from factlearn.facts import Fact, FactQuery
from factlearn.language import LanguageSpace
from factlearn.retrieval.rows import CHUNK, UNITS, Keys, unpack
from factlearn.retrieval.search import Nearest, Question, nearest
from factlearn.retrieval.stores import Store
from factlearn.retrieval.where import Filter

_LEAST, _NEARNESS, _TINY = 1e-4, 6, 1e-12
_LOOKED_AT = 2000
"""In larger indexes, only so many images nearest to each unit are looked at."""


@dataclass(frozen=True)
class Model:
    """What a model was taught, and what its vectors are worth."""

    calibration: FactCalibration
    taught: Sequence[Fact]


def has_unit(facts: Sequence[Fact], unit: str, place: int) -> NDArray[np.bool_]:
    """Which facts have a unit in its place; in any place if none has."""
    there = _in_place(facts, unit, place)
    return there if there.any() else np.array([unit in fact.units for fact in facts], bool)


def _in_place(facts: Sequence[Fact], unit: str, place: int) -> NDArray[np.bool_]:
    return np.array([fact.order > place and fact.units[place] == unit for fact in facts], bool)


def _says(
    facts: Sequence[Fact], having: NDArray[np.bool_], unit: str, place: int, language: LanguageSpace
) -> NDArray[np.float64]:
    """How much each fact says of a unit in a place, from 0 to 1, given those that have it."""
    found = having.astype(np.float64)
    if _in_place(facts, unit, place).any():
        return found
    asked = language.unit(unit)
    for row, fact in enumerate(facts):
        if not found[row] and fact.order > place:
            other = language.unit(fact.units[place])
            cosine = float(asked @ other) / max(float(np.linalg.norm(asked) * np.linalg.norm(other)), _TINY)
            found[row] = max(cosine, 0.0) ** _NEARNESS
    return found


@dataclass(frozen=True)
class Composition:
    """A question for a fact that was never taught, whose units were.

    Attributes:
        models: of the index, by fingerprint, oldest first.
        weights: of subject, predicate and object.
    """

    query: FactQuery
    models: Mapping[str, Model]
    language: LanguageSpace
    weights: NDArray[np.float64]

    @property
    def units(self) -> list[tuple[int, str]]:
        """The units that count, with their places."""
        named = [(place, unit) for place, unit in enumerate(self.query.units) if unit is not None]
        return [(place, unit) for place, unit in named if self.weights[place] > 0]

    def nearest(self, store: Store, k: int, where: Filter | None = None) -> Nearest:
        """The k images that show it most likely; ties ordered by name."""
        keys = self._candidates(store, k, where)
        if not len(keys):
            return Nearest(keys, np.empty(0), np.empty((0, UNITS)))
        parts = [keys[start : start + CHUNK] for start in range(0, len(keys), CHUNK)]
        by_unit = np.concatenate([self._evidence(store, part) for part in parts])
        scores = np.nansum(by_unit * self.weights, axis=1)
        names = store.names(keys)
        order = sorted(range(len(keys)), key=lambda place: (-scores[place], names[place]))[:k]
        return Nearest(keys[order], scores[order], by_unit[order])

    def _candidates(self, store: Store, k: int, where: Filter | None) -> Keys:
        count = max(_LOOKED_AT, 2 * k)
        if len(store) <= count:
            return store.keys(where)
        taught = list(self.models.values())[-1].taught
        wanted = set()
        for place, unit in self.units:
            for found in np.flatnonzero(has_unit(taught, unit, place)).tolist():
                wanted.add((unit, taught[found].units.index(unit)))
        questions = [_alone(self.language.unit(unit), place) for unit, place in sorted(wanted)]
        return np.unique(np.concatenate([each.keys for each in nearest(store, questions, count, where)]))

    def _evidence(self, store: Store, keys: Keys) -> NDArray[np.float64]:
        """What each unit says, before weighting: [N, 3], NaN where open."""
        vectors = unpack(store.take(keys))
        made_by = [*self.models] * len(keys) if len(self.models) == 1 else [i["model"] for i in store.items(keys)]
        found = np.full((len(keys), UNITS), np.nan)
        for name, model in self.models.items():
            rows = np.flatnonzero(np.asarray(made_by, object) == name)
            if not len(rows):
                continue
            shares = model.calibration.shares(vectors[rows], model.taught, self.language)[:, :-1]
            for place, unit in self.units:
                having = has_unit(model.taught, unit, place)
                rarity = -np.log(max(having.sum(), 1) / (len(having) + 1))
                belief = shares @ _says(model.taught, having, unit, place, self.language)
                found[rows, place] = rarity * np.log(belief + _LEAST)
        return found


def _alone(unit: NDArray[np.float32], place: int) -> Question:
    """Asks for one unit in one place."""
    target = np.zeros((UNITS, len(unit)), np.float32)
    target[place] = unit
    return Question(target, np.eye(UNITS)[place])
