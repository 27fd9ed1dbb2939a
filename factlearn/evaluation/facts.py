"""Evaluation of image vectors against facts: MAP and image -> fact metrics.

Fact -> image: every fact is a query that ranks a gallery of images by the masked distance (`scoring.py`),
judged by average precision (`ranking.py`). The gallery is the whole test set, or for a task that task's own
test images; a named subset of facts (say sports) always queries the whole test set, so that its images must
be found among all others.

Image -> fact: all known facts are ranked for each image by the *mean* squared distance over the units a fact
has; a sum would favour facts of fewer units. A fact at the same distance as the right one counts as ranked
before it.

An image that shows several facts is relevant wherever one of them is, and counts once in every gallery. Ranking facts
for it, any of them is right.

Everything is computed under both relevance rules: `exact`, the same fact, and `prefix`, every fact that
starts with the query's units. For image -> fact, prefix accepts every fact the image answers: `<person>` is
right for a picture of `<person, riding, bike>`, and the best placed right fact gives the rank.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactlearnError
from factlearn.evaluation.ranking import Ids, mean_average_precision
from factlearn.evaluation.scoring import masked_scores
from factlearn.facts import Fact, FactQuery, Relevance

ACCURACY_AT = (1, 5, 10)
_OPEN = -1


@dataclass(frozen=True)
class Retrieval:
    """Fact -> image retrieval of some facts from one gallery.

    Attributes:
        map: mean of the average precisions; None if no fact has a relevant image.
        images: how many images the gallery has.
        average_precision: by fact, for those that have a relevant image.
        not_evaluated: the facts that have none.
    """

    map: float | None
    images: int
    average_precision: Mapping[str, float]
    not_evaluated: tuple[str, ...]


@dataclass(frozen=True)
class ImageToFact:
    """Ranking all known facts for each image.

    Attributes:
        images: how many images were ranked: those that show a known fact.
        accuracy_at: the share of images with a right fact among the first 1, 5 and 10.
        mrr: the mean reciprocal rank of the first right fact.
    """

    images: int
    accuracy_at: Mapping[str, float]
    mrr: float


@dataclass(frozen=True)
class RuleResult:
    """All metrics under one relevance rule; `tasks` and `subsets` by name."""

    whole: Retrieval
    tasks: Mapping[str, Retrieval]
    subsets: Mapping[str, Retrieval]
    image_to_fact: ImageToFact | None


@dataclass(frozen=True)
class FactEvaluation:
    """The metrics of one set of image vectors under both relevance rules."""

    rules: ClassVar[tuple[str, ...]] = (Relevance.EXACT.value, Relevance.PREFIX.value)
    measure: ClassVar[str] = "MAP"
    whole_title: ClassVar[str] = "All test images"

    exact: RuleResult
    prefix: RuleResult

    @property
    def map_all(self) -> float | None:
        """MAP over the whole test set, exact relevance."""
        return self.exact.whole.map

    @property
    def map_all_prefix(self) -> float | None:
        """MAP over the whole test set, prefix relevance."""
        return self.prefix.whole.map

    def under(self, relevance: Relevance | str) -> RuleResult:
        """The metrics under one rule."""
        return self.exact if Relevance(relevance) is Relevance.EXACT else self.prefix

    def task(self, name: str, rule: str) -> float | None:
        """MAP of one task's facts among its own images; None if it was not learned yet or cannot be evaluated."""
        found = self.under(rule).tasks.get(name)
        return found.map if found else None

    def whole(self, rule: str) -> float | None:
        """MAP over the whole test set."""
        return self.under(rule).whole.map

    def subsets(self) -> dict[str, float | None]:
        """MAP of each named group of facts, exact relevance."""
        return {name: found.map for name, found in self.exact.subsets.items()}

    def headline(self) -> dict[str, float | None]:
        """The figures that a run is judged by."""
        return {"map_all": self.map_all, "map_all_prefix": self.map_all_prefix}

    def sentence(self) -> str:
        """The headline in words."""
        return f"MAP over all test images {self.map_all_prefix:.3f} prefix, {self.map_all:.3f} exact"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values: the headline, then every metric under `exact` and `prefix`."""
        return {**self.headline(), **asdict(self)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "FactEvaluation":
        """What `to_json` gave."""
        return cls(_rule_result(raw["exact"]), _rule_result(raw["prefix"]))


def _rule_result(raw: Mapping[str, Any]) -> RuleResult:
    def retrieval(values: Mapping[str, Any]) -> Retrieval:
        return Retrieval(**{**values, "not_evaluated": tuple(values["not_evaluated"])})

    found = raw["image_to_fact"]
    return RuleResult(
        whole=retrieval(raw["whole"]),
        tasks={name: retrieval(values) for name, values in raw["tasks"].items()},
        subsets={name: retrieval(values) for name, values in raw["subsets"].items()},
        image_to_fact=None if found is None else ImageToFact(**found),
    )


def evaluate_vectors(
    vectors: NDArray,
    image_facts: Sequence[Fact | Collection[Fact]],
    facts: Sequence[Fact],
    targets: tuple[NDArray, NDArray],
    *,
    ids: Ids | None = None,
    tasks: Mapping[str, Collection[Fact]] | None = None,
    subsets: Mapping[str, Collection[Fact]] | None = None,
) -> FactEvaluation:
    """Evaluate the vectors of test images against known facts.

    Args:
        vectors: [N, 3, D], one per image.
        image_facts: the fact each image shows, or all of them, at least one.
        facts: the known facts: all are queries on the whole test set and candidates for each image.
        targets: their language vectors [F, 3, D] and mask [F, 3], as `LanguageSpace.embed(facts)` gives them.
        ids: the images' ids, which order equal scores as trec_eval does; their positions if not given.
        tasks: facts by task name; a task's facts query the images that show one of them.
        subsets: facts by name, which query the whole test set.

    Raises:
        FactlearnError: if the arrays do not fit, hold NaN, or a task or subset names a fact not in `facts`.
    """
    if len(image_facts) != len(vectors) or len(facts) != len(targets[0]):
        raise FactlearnError(
            f"There are {len(vectors)} vectors for {len(image_facts)} image facts and {len(targets[0])} "
            f"targets for {len(facts)} facts; each vector needs its fact."
        )
    if ids is not None and len(ids) != len(vectors):
        raise FactlearnError(f"There are {len(ids)} ids for {len(vectors)} image vectors; give one id per image.")
    if len(set(facts)) != len(facts):
        raise FactlearnError("The known facts hold one fact twice; list each once.")
    scores = masked_scores(vectors, *targets)
    shown, columns, starts = _distinct(image_facts)
    names = None if ids is None else np.asarray(ids, dtype=np.str_)
    board = _Board(tuple(facts), np.asarray(targets[1], bool), tuple(shown), columns, starts, scores, names)
    tasks, subsets = tasks or {}, subsets or {}
    exact, prefix = (board.judge(rule, tasks, subsets) for rule in (Relevance.EXACT, Relevance.PREFIX))
    return FactEvaluation(exact=exact, prefix=prefix)


def _distinct(image_facts: Sequence[Fact | Collection[Fact]]) -> tuple[list[Fact], NDArray[np.intp], NDArray[np.intp]]:
    """The distinct facts, the place among them of every image's facts one after another, and where each image begins.

    Raises:
        FactlearnError: if an image has no fact.
    """
    each = [(facts,) if isinstance(facts, Fact) else tuple(facts) for facts in image_facts]
    if not all(each):
        raise FactlearnError("An image without a fact cannot be evaluated; leave it out.")
    places = {fact: place for place, fact in enumerate(dict.fromkeys(fact for facts in each for fact in facts))}
    columns = np.array([places[fact] for facts in each for fact in facts], dtype=np.intp)
    starts = np.cumsum([0, *map(len, each)], dtype=np.intp)[:-1]
    return list(places), columns, starts


def relevance_matrix(
    queries: Sequence[Fact | FactQuery], facts: Sequence[Fact], relevance: Relevance | str
) -> NDArray[np.bool_]:
    """Which of F facts match which of Q queries: bool [Q, F], equal to `FactQuery.matches` of each pair."""
    codes: dict[str, int] = {}

    def encode(units: Sequence[str | None]) -> list[int]:
        padded = [*units, None, None, None][:3]
        return [codes.setdefault(unit, len(codes)) if unit else _OPEN for unit in padded]

    asked = np.array([encode(query.units) for query in queries], dtype=np.int64).reshape(-1, 3)
    given = np.array([encode(fact.units) for fact in facts], dtype=np.int64).reshape(-1, 3)
    matches = np.ones((len(asked), len(given)), dtype=bool)
    for position in range(3):
        column = asked[:, position, None]
        matches &= (column == _OPEN) | (column == given[None, :, position])
    if Relevance(relevance) is Relevance.EXACT:
        length = np.array([len(query.units) for query in queries], dtype=np.int64)
        matches &= length[:, None] == (given != _OPEN).sum(axis=1)[None]
    return matches


@dataclass(frozen=True)
class _Board:
    """The scores of all facts for all images, from which every metric is read."""

    facts: tuple[Fact, ...]
    mask: NDArray[np.bool_]
    shown: tuple[Fact, ...]
    columns: NDArray[np.intp]
    starts: NDArray[np.intp]
    scores: NDArray[np.float64]
    ids: NDArray[np.str_] | None

    def judge(
        self,
        rule: Relevance,
        tasks: Mapping[str, Collection[Fact]],
        subsets: Mapping[str, Collection[Fact]],
    ) -> RuleResult:
        relevant = self._any_fact(relevance_matrix(self.facts, self.shown, rule))
        everything = np.arange(len(self.starts))
        return RuleResult(
            whole=self._retrieval(relevant, np.arange(len(self.facts)), everything),
            tasks={
                name: self._retrieval(relevant, self._rows(name, members), self._images_of(members))
                for name, members in tasks.items()
            },
            subsets={
                name: self._retrieval(relevant, self._rows(name, members), everything)
                for name, members in subsets.items()
            },
            image_to_fact=self._image_to_fact(relevant),
        )

    def _rows(self, name: str, members: Collection[Fact]) -> NDArray[np.intp]:
        unknown = sorted(set(members).difference(self.facts))
        if unknown:
            raise FactlearnError(f"{name!r} names {unknown[0]}, which is not among the {len(self.facts)} known facts.")
        chosen = set(members)
        return np.array([row for row, fact in enumerate(self.facts) if fact in chosen], dtype=np.intp)

    def _images_of(self, members: Collection[Fact]) -> NDArray[np.intp]:
        chosen = set(members)
        inside = np.array([fact in chosen for fact in self.shown], dtype=bool)
        return np.flatnonzero(self._any_fact(inside[None])[0])

    def _any_fact(self, of_shown: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """What holds for any of an image's facts: [Q, images] from [Q, facts shown]."""
        each = of_shown[:, self.columns]
        return each if len(self.columns) == len(self.starts) else np.logical_or.reduceat(each, self.starts, axis=1)

    def _retrieval(self, relevant: NDArray[np.bool_], rows: NDArray[np.intp], images: NDArray[np.intp]) -> Retrieval:
        part = np.ix_(rows, images)
        ids = None if self.ids is None else self.ids[images]
        result = mean_average_precision(self.scores[part], relevant[part], ids)
        names = [str(self.facts[row]) for row in rows]
        judged = zip(names, result.per_query.tolist(), result.evaluated, strict=True)
        return Retrieval(
            map=result.mean,
            images=len(images),
            average_precision={name: value for name, value, evaluated in judged if evaluated},
            not_evaluated=tuple(name for name, done in zip(names, result.evaluated, strict=True) if not done),
        )

    def _image_to_fact(self, relevant: NDArray[np.bool_]) -> ImageToFact | None:
        ranked = relevant.any(axis=0)
        if not ranked.any():
            return None
        right = relevant[:, ranked]
        # float32, as when images are ranked: distances that differ by rounding alone are equal.
        mean = (self.scores[:, ranked] / self.mask.sum(axis=1)[:, None]).astype(np.float32)
        best = np.where(right, mean, -np.inf).max(axis=0)
        rank = 1 + ((mean >= best) & ~right).sum(axis=0)
        return ImageToFact(
            images=int(ranked.sum()),
            accuracy_at={str(k): float((rank <= k).mean()) for k in ACCURACY_AT},
            mrr=float((1 / rank).mean()),
        )
