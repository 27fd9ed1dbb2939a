"""A unit in any position: `<bicycle>` also finds `<person, riding, bike>`.

Every unit of a query is looked for in each place where it makes sense: where it is asked for, where the index knows it,
and where words of its kind stand, so that words never taught are found by their neighbours: verbs as predicates, all
others as subjects and objects. Distances of different places do not compare, since subjects are seen more easily than
objects; hits are therefore ranked by the evidence that their units give (see `factlearn.retrieval.fitting`), which is
above 0 where it speaks for the fact.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from factlearn.facts import UNIT_NAMES, FactQuery, Vocabulary
from factlearn.retrieval.fitting import Fitting
from factlearn.retrieval.hits import Hit
from factlearn.retrieval.search import Question
from factlearn.retrieval.sentences import Reading
from factlearn.retrieval.words import is_verb_form

_PREDICATE = UNIT_NAMES.index("predicate")


def anywhere(reading: Reading, vocabulary: Vocabulary) -> Reading:
    """The reading with the units of wanted and unwanted facts in any position; `also` stays as it is."""
    wanted = _all_placements((reading.query, *reading.any_of), vocabulary)
    unwanted = _all_placements(reading.without, vocabulary)
    return replace(reading, any_of=tuple(wanted[1:]), without=tuple(unwanted))


def placements(query: FactQuery, vocabulary: Vocabulary) -> list[FactQuery]:
    """The query itself, then its units in other places, each place taken by one of them."""
    named = [(place, unit) for place, unit in enumerate(query.units) if unit is not None]
    found = [query]
    for places in product(*(_places(unit, place, vocabulary) for place, unit in named)):
        if len(set(places)) == len(places):
            units: list[str | None] = [None] * (max(places) + 1)
            for place, (_, unit) in zip(places, named, strict=True):
                units[place] = unit
            found.append(FactQuery(tuple(units)))
    return list(dict.fromkeys(found))


def _all_placements(queries: Iterable[FactQuery], vocabulary: Vocabulary) -> list[FactQuery]:
    queries = list(queries)
    return list(dict.fromkeys([*queries, *(each for query in queries for each in placements(query, vocabulary))]))


def _places(unit: str, asked: int, vocabulary: Vocabulary) -> list[int]:
    taught = {place for place, units in enumerate(vocabulary.positions) if unit in units}
    usual = {_PREDICATE} if is_verb_form(unit.split(maxsplit=1)[0]) else {*range(len(UNIT_NAMES))} - {_PREDICATE}
    return sorted({asked} | taught | usual)


def comparable(questions: Iterable[Question], fitting: Fitting) -> list[Question]:
    """Questions whose scores order images as the evidence does."""
    return [Question(each.target, each.weights / fitting.expected) for each in questions]


def by_evidence(rankings: Iterable[Sequence[Hit]], fitting: Fitting, weights: NDArray[np.float64]) -> list[Hit]:
    """The hits of several rankings as one: each image once, where the evidence, now its score, is most; ties by id."""
    scale = dict(zip(UNIT_NAMES, zip(weights / fitting.expected, fitting.even, strict=True), strict=True))

    def evidence(hit: Hit) -> float:
        return float(
            sum(weight * (even + hit.scores[unit]) for unit, (weight, even) in scale.items() if unit in hit.scores)
        )

    judged = [replace(hit, score=evidence(hit)) for hits in rankings for hit in hits]
    best: dict[str, Hit] = {}
    for hit in sorted(judged, key=lambda hit: (-hit.score, hit.id)):
        best.setdefault(hit.id, hit)
    return list(best.values())
