"""How likely an image shows the fact that a query asks for: a few numbers, fitted on held-out photos.

What the beliefs (`beliefs.py`) give to all taught facts that answer the query is added up, and calibrated by a logistic
function, one for each pattern of units that a query can name (Platt scaling):

    p(image answers query)  =  sigmoid(slope logit(sum of beliefs) + constant)

Fitted on every query of the pattern that a taught fact answers, against all held-out photos. Nearly all pairs of a
query and a photo are wrong and far apart; what users see are the first hits. So the hit at rank r of a query counts
1 / r^1.15, up to rank 100. A fact that was never taught competes with the taught ones by its word vectors.

What an image shows is answered by the beliefs themselves, calibrated as `answers.py` says (pattern `answer`).

The expected calibration error is reported over the first 10 and the first 20 hits of every query, and over all pairs,
apart for queries of whole taught facts and for those with open units. A photo counts as right if its label says so
under the prefix rule. Of answers to what an image shows, the first of each photo is judged, "none of these" included.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from factlearn.evaluation.answers import answered, first_answer_error, fit_answers, with_untaught
from factlearn.evaluation.beliefs import FactBeliefs
from factlearn.evaluation.calibration import (
    Bools,
    Floats,
    expected_calibration_error,
    fit_logistic,
    halves,
    name_hash,
    sigmoid,
)
from factlearn.evaluation.facts import relevance_matrix
from factlearn.evaluation.scoring import masked_scores
from factlearn.facts import UNIT_NAMES, Fact, FactQuery, Relevance
from factlearn.language import LanguageSpace

DEPTH = 100
_FADE = 1.15
"""Of 1, 1.15 and 1.25, the one whose worst error is least on held-out training photos and on emoji with seed 100."""
REPORTED = ("10", "20", "all")
ANSWER = "answer"
_FEWEST_PHOTOS, _FEWEST_RIGHT = 10, 5
_MOST_CELLS = 500_000
_LEAST = 1e-12
_MASKS = [mask for mask in product((True, False), repeat=len(UNIT_NAMES)) if any(mask)]


def pattern_of(query: FactQuery) -> str:
    """The units that a query names, such as `subject+object`."""
    return "+".join(name for name, named in zip(UNIT_NAMES, query.mask, strict=True) if named)


def is_taught(query: FactQuery, facts: Iterable[Fact]) -> bool:
    """Whether a taught fact answers a query."""
    return any(query.matches(fact) for fact in facts)


@dataclass(frozen=True)
class HeldOut:
    """Held-out photos, and what was taught.

    Attributes:
        vectors: of the photos [N, 3, D].
        shown: the facts that each photo's labels name.
        ids: of the photos.
        tasks: the facts of each task learned.
    """

    vectors: NDArray[np.float32]
    shown: Sequence[Collection[Fact]]
    ids: Sequence[str]
    tasks: Mapping[str, Collection[Fact]]

    @cached_property
    def facts(self) -> list[Fact]:
        """The facts taught, sorted."""
        return sorted({fact for facts in self.tasks.values() for fact in facts})

    def of(self, rows: NDArray[np.intp]) -> "HeldOut":
        """Some of the photos."""
        chosen = [int(row) for row in rows]
        return HeldOut(
            self.vectors[rows], [self.shown[row] for row in chosen], [self.ids[r] for r in chosen], self.tasks
        )

    def sampled(self) -> "HeldOut":
        """At most as many photos as can be looked at in a second or two, chosen by a hash of their ids."""
        most = max(_MOST_CELLS // max(len(self.facts), 1), 200)
        order = np.argsort([name_hash(name) for name in self.ids], kind="stable")
        return self if len(self.ids) <= most else self.of(np.sort(order[:most]))

    @cached_property
    def labels(self) -> Bools:
        """Which photo shows which taught fact [N, F]."""
        return _incidence(self.shown, self.facts)

    @cached_property
    def own(self) -> Bools:
        """The facts of each photo's own tasks [N, F]."""
        member = _incidence(list(self.tasks.values()), self.facts).astype(np.float32)
        return (self.labels @ member.T) @ member > 0  # type: ignore[no-any-return]


def _incidence(groups: Sequence[Collection[Fact]], facts: Sequence[Fact]) -> Bools:
    """Which group holds which fact [groups, F]."""
    places = {fact: place for place, fact in enumerate(facts)}
    found = np.zeros((len(groups), len(facts)), bool)
    for row, group in enumerate(groups):
        found[row, [places[fact] for fact in group if fact in places]] = True
    return found


@dataclass(frozen=True)
class FactCalibration:
    """What a model's distances are worth: the numbers of the formula above.

    Attributes:
        beliefs: of the facts taught.
        facts: those that were taught, which the beliefs are about.
        patterns: slope and constant of each pattern of units of which there was evidence.
        photos: the number of photos it was fitted on.
        measured: expected calibration errors, `{"facts": {"10": ...}, "wildcards": ...}`; nothing if there were too few
            photos to measure.
    """

    beliefs: FactBeliefs
    facts: Sequence[Fact]
    patterns: Mapping[str, tuple[float, float]]
    photos: int
    measured: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def fit(cls, held_out: HeldOut, language: LanguageSpace) -> "FactCalibration | None":
        """Fitted on all photos, and measured by fitting on one half and looking at the other; None if there are few."""
        photos = held_out.sampled()
        shows = photos.labels.any(axis=1)
        if shows.sum() < _FEWEST_PHOTOS or len(photos.facts) < 2:
            return None
        table = _Table.of(photos, language)
        everything = np.ones(len(photos.ids), bool)
        beliefs, patterns = table.fit(everything)
        return cls(beliefs, photos.facts, patterns, int(everything.sum()), table.measure(halves(photos.ids)))

    def probabilities(
        self, vectors: NDArray, query: FactQuery, facts: Sequence[Fact], language: LanguageSpace
    ) -> Floats | None:
        """The probability that each of N images [N, 3, D] shows what a query asks for; None if nothing tells.

        Args:
            facts: those that were taught to the model that made the vectors.
        """
        numbers = self.patterns.get(pattern_of(query))
        if numbers is None:
            return None
        candidates: list[Fact | FactQuery] = list(facts)
        answers = relevance_matrix([query], facts, Relevance.PREFIX)
        if not answers.any():
            candidates.append(query)
            answers = np.append(answers, [[True]], axis=1)
        shares = self.shares(vectors, candidates, language)
        return _chances(numbers, _logits(shares, answers)[0])

    def facts_of(self, vectors: NDArray, facts: Sequence[Fact], language: LanguageSpace) -> Floats:
        """The probability of each fact, and of none of these last: [N, F + 1]; rows need not add up to 1."""
        return answered(self.shares(vectors, facts, language), self.patterns.get(ANSWER))

    def shares(self, vectors: NDArray, candidates: Sequence[Fact | FactQuery], language: LanguageSpace) -> Floats:
        """What the beliefs give to each candidate, and to none of these last: [N, C + 1]; rows add up to 1."""
        worth = dict(zip(self.facts, self.beliefs.worth, strict=False))
        known = [worth.get(each, 0.0) if isinstance(each, Fact) else 0.0 for each in candidates]
        return self.beliefs.shares(vectors, *language.embed(candidates), known)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        patterns = {name: list(numbers) for name, numbers in self.patterns.items()}
        return {
            "beliefs": self.beliefs.to_json(),
            "facts": [str(fact) for fact in self.facts],
            "patterns": patterns,
            "photos": self.photos,
            "ece": self.measured,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """What `to_json` gave."""
        patterns = {str(name): (float(a), float(b)) for name, (a, b) in raw["patterns"].items()}
        facts = [Fact.parse(fact) for fact in raw.get("facts", ())]  # nothing is known of them in calibrations of 0.1
        return cls(FactBeliefs.from_json(raw["beliefs"]), facts, patterns, int(raw["photos"]), dict(raw["ece"]))


def _logits(shares: Floats, answers: Bools) -> Floats:
    """The logit of all beliefs in what answers each query: [Q, N]; no difference of near numbers is taken."""
    answered = shares[:, :-1] @ answers.T
    others = shares[:, :-1] @ ~answers.T + shares[:, -1:]
    logits: Floats = (np.log(answered + _LEAST) - np.log(others + _LEAST)).T
    return logits


def _chances(numbers: Sequence[float], logits: Floats) -> Floats:
    return sigmoid(numbers[0] * logits + numbers[1])


@dataclass(frozen=True)
class _Asked:
    """All queries of one pattern: which facts answer each [Q, F], scores and truth of each photo [Q, N]."""

    pattern: str
    whole: Bools
    answers: Bools
    scores: Floats
    right: Bools

    def ranked(self, rows: NDArray[np.intp], depth: int) -> NDArray[np.intp]:
        """The photos among `rows` that come first for each query: [Q, depth]."""
        order = np.argsort(-self.scores[:, rows], axis=1, kind="stable")[:, :depth]
        return rows[order]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Table:
    photos: HeldOut
    targets: tuple[NDArray[np.float32], NDArray[np.bool_]]
    asked: Sequence[_Asked]

    @classmethod
    def of(cls, photos: HeldOut, language: LanguageSpace) -> "_Table":
        facts = photos.facts
        everything = sorted({*facts, *(fact for shown in photos.shown for fact in shown)})
        shows = _incidence(photos.shown, everything).astype(np.float32)
        asked = []
        for mask in _MASKS:
            if queries := _queries(facts, mask):
                right = relevance_matrix(queries, everything, Relevance.PREFIX) @ shows.T > 0
                scores = masked_scores(photos.vectors, *language.embed(queries))
                whole = np.array([_is_fact(query, facts) for query in queries], bool)
                answers = relevance_matrix(queries, facts, Relevance.PREFIX)
                asked.append(_Asked(pattern_of(queries[0]), whole, answers, scores, right))
        return cls(photos, language.embed(facts), asked)

    def fit(self, chosen: Bools) -> tuple[FactBeliefs, dict[str, tuple[float, float]]]:
        """Beliefs and the numbers of each pattern, by some of the photos."""
        labels = self.photos.labels
        rows = np.flatnonzero(chosen & labels.any(axis=1))
        wanted = labels[rows] / labels[rows].sum(axis=1, keepdims=True)
        beliefs = FactBeliefs.fit(
            self.photos.vectors[rows], *self.targets, wanted, self.photos.own[rows], len(self.photos.tasks)
        )
        shares = beliefs.shares(self.photos.vectors, *self.targets)
        patterns = {}
        for each in self.asked:
            places = each.ranked(np.flatnonzero(chosen), DEPTH)
            logits, right = _pairs(each, shares, places)
            if right.sum() >= _FEWEST_RIGHT:
                weights = np.broadcast_to(np.arange(1, places.shape[1] + 1) ** -_FADE, places.shape).ravel()
                slope, constant = fit_logistic(logits[:, None], right, weights).tolist()
                patterns[each.pattern] = (slope, constant)
        patterns[ANSWER] = fit_answers(*self._choices(beliefs, rows))
        return beliefs, patterns

    def _choices(self, beliefs: FactBeliefs, rows: NDArray[np.intp]) -> tuple[Floats, Bools, Floats]:
        shares = beliefs.shares(self.photos.vectors[rows], *self.targets)
        return with_untaught(shares, self.photos.labels[rows], self.photos.own[rows], len(self.photos.tasks))

    def measure(self, first: Bools) -> dict[str, dict[str, float]]:
        """Expected calibration errors on each half of the photos by numbers from the other, averaged."""
        found: dict[tuple[str, str], list[float]] = {}
        for fitted in (first, ~first):
            if self.photos.labels[fitted].any(axis=1).sum() < _FEWEST_PHOTOS or fitted.all():
                return {}
            beliefs, patterns = self.fit(fitted)
            shares = beliefs.shares(self.photos.vectors, *self.targets)
            for kind, depth in product(("facts", "wildcards"), REPORTED):
                chances, right = self._answers(patterns, shares, np.flatnonzero(~fitted), kind, depth)
                if len(right):
                    found.setdefault((kind, depth), []).append(expected_calibration_error(chances, right))
            answers = self._choices(beliefs, np.flatnonzero(~fitted & self.photos.labels.any(axis=1)))
            found.setdefault(("answers", "1"), []).append(first_answer_error(*answers, patterns[ANSWER]))
        measured: dict[str, dict[str, float]] = {}
        for (kind, depth), errors in found.items():
            measured.setdefault(kind, {})[depth] = float(np.mean(errors))
        return measured

    def _answers(
        self, patterns: Mapping[str, Any], shares: Floats, rows: NDArray[np.intp], kind: str, depth: str
    ) -> tuple[Floats, Bools]:
        """The probability of the first hits of whole facts, or of other queries, and whether they are right."""
        chances, rights = [np.empty(0)], [np.empty(0, bool)]
        for each in self.asked:
            chosen = each.whole == (kind == "facts")
            if each.pattern not in patterns or not chosen.any():
                continue
            part = _Asked(
                each.pattern, *(array[chosen] for array in (each.whole, each.answers, each.scores, each.right))
            )
            logits, right = _pairs(part, shares, part.ranked(rows, len(rows) if depth == "all" else int(depth)))
            chances.append(_chances(patterns[each.pattern], logits))
            rights.append(right)
        return np.concatenate(chances), np.concatenate(rights)


def _pairs(asked: _Asked, shares: Floats, places: NDArray[np.intp]) -> tuple[Floats, Bools]:
    """The logits of pairs of a query and a photo, and whether each is right."""
    logits = np.take_along_axis(_logits(shares, asked.answers), places, axis=1)
    return logits.ravel(), np.take_along_axis(asked.right, places, axis=1).ravel()


def _queries(facts: Iterable[Fact], mask: Sequence[bool]) -> list[FactQuery]:
    """The distinct queries that name the units of a mask and are answered by a fact."""
    found = set()
    for fact in facts:
        units = (fact.subject, fact.predicate, fact.object)
        if all(unit for unit, named in zip(units, mask, strict=True) if named):
            last = max(place for place, named in enumerate(mask) if named)
            found.add(tuple(unit if named else None for unit, named in zip(units, mask, strict=True))[: last + 1])
    return [FactQuery(units) for units in sorted(found, key=str)]


def _is_fact(query: FactQuery, facts: Collection[Fact]) -> bool:
    return any(query.units == fact.units for fact in facts)
