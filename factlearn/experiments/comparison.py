"""Methods compared: mean and deviation over seeds, and a paired test on the facts' average precisions.

The test asks whether one method is better than another *on facts like these*: a fact's average precision, averaged over
the seeds both methods have, is one pair. Under the null hypothesis the sign of each pair's difference is a coin toss
(paired randomisation test, two-sided). It says nothing of other datasets, and with few seeds little of other splits.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import mean, stdev
from typing import Any

import numpy as np
from rich.table import Table

from factlearn.errors import RunError
from factlearn.facts import Relevance
from factlearn.learning.results import RunResult

FLIPS = 10_000
SCORE_COLUMNS = ("method", "seeds", "MAP, all", "gap closed", "average forgetting", "image to fact, accuracy@1")
TEST_COLUMNS = ("methods", "difference", "95 % interval", "facts better", "p", "facts", "seeds")
_SEED = 0


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of a measure over seeds; the deviation is None for one seed."""

    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread | None":
        """Of these values; None if there are none."""
        if not values:
            return None
        return cls(mean(values), stdev(values) if len(values) > 1 else None)

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + ("" if self.deviation is None else f" ± {self.deviation:.3f}")


@dataclass(frozen=True)
class MethodScore:
    """One method over its seeds, at the end of the sequence."""

    method: str
    seeds: tuple[int, ...]
    map_all: Spread
    forgetting: Spread | None
    accuracy: Spread | None


@dataclass(frozen=True)
class PairedTest:
    """Whether `one` differs from `other` on the facts' average precision.

    Attributes:
        difference: mean over facts of one minus other.
        low, high: its 95 % interval (bootstrap over facts).
        better: the share of facts on which `one` is better.
        p: of the paired randomisation test, adjusted by Holm for all pairs that were compared.
        facts, seeds: how many went in.
    """

    one: str
    other: str
    difference: float
    low: float
    high: float
    better: float
    p: float
    facts: int
    seeds: int


def score_methods(groups: Mapping[str, Sequence[RunResult]]) -> list[MethodScore]:
    """A line a method."""
    scores = []
    for method, results in groups.items():
        lost = [found.average for result in results if (found := result.forgetting(Relevance.EXACT))]
        accuracies = [f.accuracy_at["1"] for result in results if (f := result.final.exact.image_to_fact)]
        whole = Spread.of([result.final.map_all or 0.0 for result in results])
        assert whole is not None
        seeds = tuple(result.run.config.seed for result in results)
        scores.append(MethodScore(method, seeds, whole, Spread.of(lost), Spread.of(accuracies)))
    return scores


def paired_tests(groups: Mapping[str, Sequence[RunResult]]) -> list[PairedTest]:
    """Every two methods that share a seed, the better one first, p values adjusted for their number."""
    tests = []
    for names in combinations(groups, 2):
        pairs = _pairs(*(groups[name] for name in names))
        if pairs is not None:
            difference, seeds = pairs
            one, other = names if difference.mean() >= 0 else names[::-1]
            difference = difference if difference.mean() >= 0 else -difference
            low, high = _interval(difference)
            better, p = float((difference > 0).mean()), randomisation_p(difference)
            tests.append(PairedTest(one, other, float(difference.mean()), low, high, better, p, len(difference), seeds))
    return _holm(tests)


def _pairs(one: Sequence[RunResult], other: Sequence[RunResult]) -> "tuple[np.ndarray, int] | None":
    """A difference a fact, averaged over the seeds both have."""
    by_seed = [{result.run.config.seed: _precisions(result) for result in group} for group in (one, other)]
    seeds = sorted(by_seed[0].keys() & by_seed[1].keys())
    if not seeds:
        return None
    facts = sorted(set.intersection(*(set(table[seed]) for table in by_seed for seed in seeds)))
    if not facts:
        raise RunError("Two of the runs evaluate no fact in common; give runs over the same facts.")
    means = [np.array([[table[seed][fact] for fact in facts] for seed in seeds]).mean(axis=0) for table in by_seed]
    return means[0] - means[1], len(seeds)


def _precisions(result: RunResult) -> Mapping[str, float]:
    return result.final.exact.whole.average_precision


def randomisation_p(differences: "np.ndarray", flips: int = FLIPS) -> float:
    """How often coin-toss signs give a mean as far from zero: exact for few pairs, otherwise from `flips` draws."""
    values = np.asarray(differences, np.float64)
    observed = abs(values.sum()) * (1 - 1e-12)
    if len(values) <= 13:
        signs = (np.arange(2 ** len(values))[:, None] >> np.arange(len(values)) & 1) * 2.0 - 1
        return float((np.abs(signs @ values) >= observed).mean())
    signs = np.random.default_rng(_SEED).integers(0, 2, (flips, len(values))) * 2.0 - 1
    return float(((np.abs(signs @ values) >= observed).sum() + 1) / (flips + 1))


def _interval(differences: "np.ndarray") -> tuple[float, float]:
    draws = np.random.default_rng(_SEED).integers(0, len(differences), (2000, len(differences)))
    low, high = np.percentile(differences[draws].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def _holm(tests: Sequence[PairedTest]) -> list[PairedTest]:
    """Holm's adjustment: the smallest p times the number of tests, and so on, never falling."""
    adjusted: dict[int, float] = {}
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(tests)), key=lambda i: tests[i].p)):
        highest = max(highest, min(1.0, tests[place].p * (len(tests) - rank)))
        adjusted[place] = highest
    return [PairedTest(**{**asdict(test), "p": adjusted[place]}) for place, test in enumerate(tests)]


def p_text(p: float) -> str:
    """A p value for people."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def gap_closed(value: float, low: float, high: float) -> float | None:
    """How much of the way from FineTune to Joint a method goes; None where there is no way to go."""
    return None if math.isclose(low, high) else (value - low) / (high - low)


def scores_rows(scores: Sequence[MethodScore]) -> list[list[str]]:
    """A row a method, mean ± deviation over seeds, in the order of `SCORE_COLUMNS`."""
    ends = {score.method: score.map_all.mean for score in scores}
    rows = []
    for score in scores:
        share = None
        if {"FineTune", "Joint"} <= ends.keys():
            share = gap_closed(score.map_all.mean, ends["FineTune"], ends["Joint"])
        rows.append(
            [score.method, str(len(score.seeds)), str(score.map_all), "-" if share is None else f"{share:.0%}",
             str(score.forgetting or "-"), str(score.accuracy or "-")]
        )  # fmt: skip
    return rows


def tests_rows(tests: Sequence[PairedTest]) -> list[list[str]]:
    """A row a pair of methods, in the order of `TEST_COLUMNS`."""
    return [
        [f"{test.one} − {test.other}", f"{test.difference:+.3f}", f"{test.low:+.3f} to {test.high:+.3f}",
         f"{test.better:.0%}", p_text(test.p), str(test.facts), str(test.seeds)]
        for test in tests
    ]  # fmt: skip


def scores_table(scores: Sequence[MethodScore]) -> Table:
    """`scores_rows` for a terminal."""
    return _table("At the end of the sequence, exact relevance, mean ± deviation", SCORE_COLUMNS, scores_rows(scores))


def tests_table(tests: Sequence[PairedTest]) -> Table:
    """`tests_rows` for a terminal."""
    title = "Paired on facts: average precision at the end (randomisation test, Holm-adjusted)"
    return _table(title, TEST_COLUMNS, tests_rows(tests))


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left")
    for row in rows:
        table.add_row(*row)
    return table


def comparison_json(scores: Sequence[MethodScore], tests: Sequence[PairedTest]) -> dict[str, Any]:
    """Plain JSON values."""
    return {"methods": [asdict(score) for score in scores], "paired": [asdict(test) for test in tests]}
