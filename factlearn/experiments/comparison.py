"""Methods compared: mean and deviation over seeds, and a paired test on facts or classes.

The test asks whether one method is better than another *on facts like these*: a fact's average precision (a class's
accuracy), averaged over the seeds both methods have, is one pair. Under the null hypothesis the sign of each pair's
difference is a coin toss (paired randomisation test, two-sided). It says nothing of other datasets, and with few seeds
little of other splits.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import mean, stdev
from typing import Any

import numpy as np

from factlearn.errors import RunError
from factlearn.evaluation.results import RunResult
from factlearn.experiments.changes import class_accuracies

FLIPS = 10_000
FACT_COLUMNS = ("method", "seeds", "MAP, all", "gap closed", "average forgetting", "image to fact, accuracy@1")
CLASS_COLUMNS = ("method", "seeds", "average accuracy", "gap closed", "average forgetting", "not told the task")
TEST_COLUMNS = ("methods", "difference", "95 % interval", "share better", "p", "compared", "seeds")
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
    """One method over its seeds, at the end of the sequence.

    Attributes:
        whole: MAP over all test images, or the average accuracy of the tasks.
        second: accuracy@1 of image to fact, or accuracy without being told the task.
    """

    method: str
    seeds: tuple[int, ...]
    whole: Spread
    forgetting: Spread | None
    second: Spread | None


@dataclass(frozen=True)
class PairedTest:
    """Whether `one` differs from `other` on facts or classes.

    Attributes:
        difference: mean over them of one minus other.
        low, high: its 95 % interval (bootstrap).
        better: the share of facts or classes on which `one` is better.
        p: of the paired randomisation test, adjusted by Holm for all pairs that were compared.
        compared, seeds: how many facts or classes, and seeds, went in.
    """

    one: str
    other: str
    difference: float
    low: float
    high: float
    better: float
    p: float
    compared: int
    seeds: int


def score_methods(groups: Mapping[str, Sequence[RunResult]]) -> list[MethodScore]:
    """One line per method."""
    scores = []
    for method, results in groups.items():
        lost = [found.average for result in results if (found := result.forgetting()) and found.per_task]
        second = [value for result in results if (value := _second(result)) is not None]
        whole = Spread.of([result.whole()[-1] or 0.0 for result in results])
        assert whole is not None
        seeds = tuple(result.run.config.seed for result in results)
        scores.append(MethodScore(method, seeds, whole, Spread.of(lost), Spread.of(second)))
    return scores


def _second(result: RunResult) -> float | None:
    if result.run.config.learn == "classes":
        return float(result.final.task_free_average)
    found = result.final.exact.image_to_fact
    return None if found is None else float(found.accuracy_at["1"])


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
    """One difference per fact or class, averaged over the seeds both have."""
    by_seed = [{result.run.config.seed: _precisions(result) for result in group} for group in (one, other)]
    seeds = sorted(by_seed[0].keys() & by_seed[1].keys())
    if not seeds:
        return None
    facts = sorted(set.intersection(*(set(table[seed]) for table in by_seed for seed in seeds)))
    if not facts:
        raise RunError("Two of the runs evaluate nothing in common; give runs over the same facts or classes.")
    means = [np.array([[table[seed][fact] for fact in facts] for seed in seeds]).mean(axis=0) for table in by_seed]
    return means[0] - means[1], len(seeds)


def _precisions(result: RunResult) -> Mapping[str, float]:
    if result.run.config.learn == "classes":
        return class_accuracies(result, len(result.learned))
    found: Mapping[str, float] = result.final.exact.whole.average_precision
    return found


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
    """One row per method, mean ± deviation over seeds, in the order of `FACT_COLUMNS` or `CLASS_COLUMNS`."""
    ends = {score.method: score.whole.mean for score in scores}
    rows = []
    for score in scores:
        share = None
        if {"FineTune", "Joint"} <= ends.keys():
            share = gap_closed(score.whole.mean, ends["FineTune"], ends["Joint"])
        rows.append(
            [score.method, str(len(score.seeds)), str(score.whole), "-" if share is None else f"{share:.0%}",
             str(score.forgetting or "-"), str(score.second or "-")]
        )  # fmt: skip
    return rows


def tests_rows(tests: Sequence[PairedTest]) -> list[list[str]]:
    """One row per pair of methods, in the order of `TEST_COLUMNS`."""
    return [
        [f"{test.one} − {test.other}", f"{test.difference:+.3f}", f"{test.low:+.3f} to {test.high:+.3f}",
         f"{test.better:.0%}", p_text(test.p), str(test.compared), str(test.seeds)]
        for test in tests
    ]  # fmt: skip


def comparison_json(scores: Sequence[MethodScore], tests: Sequence[PairedTest]) -> dict[str, Any]:
    """Plain JSON values."""
    return {"methods": [asdict(score) for score in scores], "paired": [asdict(test) for test in tests]}
