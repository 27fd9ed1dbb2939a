"""What people call a run: its method, as the paper writes it, and what sets it apart from the others given."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from factlearn.errors import RunError
from factlearn.evaluation.results import RunResult
from factlearn.learning.config import RunConfig
from factlearn.learning.results import load_result
from factlearn.learning.runs import Run
from factlearn.lifelong.registry import METHODS, title_of

MOST_METHODS = 5


def explained(results: Mapping[str, RunResult]) -> dict[str, str]:
    """The title of each method, and what it does in a few words."""
    methods = [METHODS.find(result.run.config.strategy.name) for result in results.values()]
    return {method.title: method.summary for method in methods}


def group_runs(results: Sequence[RunResult]) -> dict[str, list[RunResult]]:
    """Runs by method; within a method they differ by seed alone.

    Runs of one method that differ in lambda are groups of their own; those that differ in something else are told
    apart by their folder's name.

    Raises:
        RunError: if there is none.
    """
    if not results:
        raise RunError("A report needs at least one run.")
    by_title: dict[str, list[RunResult]] = {}
    for result in results:
        by_title.setdefault(title_of(result.run.config.strategy), []).append(result)
    groups: dict[str, list[RunResult]] = {}
    for title, members in by_title.items():
        several = len({result.run.config.strategy.strength for result in members}) > 1
        for result in members:
            label = f"{title}, λ = {result.run.config.strategy.strength:g}" if several else title
            names = (label, f"{label}, {result.run.folder.name}", f"{label}, {result.run.folder}")
            free = next((name for name in names if _fits(result, groups.get(name, []))), names[-1])
            groups.setdefault(free, []).append(result)
    return groups


def _fits(result: RunResult, group: Sequence[RunResult]) -> bool:
    """Whether a run differs from those of a group by its seed alone."""
    same = all(_seedless(result) == _seedless(other) for other in group)
    return same and result.run.config.seed not in {other.run.config.seed for other in group}


def _seedless(result: RunResult) -> RunConfig:
    config: RunConfig = result.run.config
    return config.model_copy(update={"seed": 0})


def first_of_each(groups: Mapping[str, Sequence[RunResult]]) -> dict[str, RunResult]:
    """The runs that share the lowest seed which every method has, or simply the first run of each."""
    shared = set.intersection(*({result.run.config.seed for result in group} for group in groups.values()))
    chosen = {}
    for label, group in groups.items():
        of_seed = [result for result in group if shared and result.run.config.seed == min(shared)]
        chosen[label] = (of_seed or list(group))[0]
    return chosen


def shown_runs(groups: Mapping[str, Sequence[RunResult]]) -> dict[str, RunResult]:
    """One run per method for the details of a report; of many groups, only the best of each sweep of lambda."""
    if len(groups) <= MOST_METHODS:
        return first_of_each(groups)
    best: dict[str, str] = {}
    for label, group in groups.items():
        title = title_of(group[0].run.config.strategy)
        if title not in best or _mean(groups[best[title]]) < _mean(group):
            best[title] = label
    return first_of_each({label: group for label, group in groups.items() if label in best.values()})


def _mean(group: Sequence[RunResult]) -> float:
    return sum(result.whole()[-1] or 0.0 for result in group) / len(group)


def load_runs(folders: Sequence[Path]) -> list[RunResult]:
    """The results of the runs in these folders, each given once.

    Raises:
        RunError: if none is given, one is given twice, or they are of different kinds or different data.
    """
    places = [folder.resolve() for folder in folders]
    if not places:
        raise RunError("Name at least one run directory.")
    for place, folder in zip(places, folders, strict=True):
        if places.count(place) > 1:
            raise RunError(f"{folder} is given twice; name each run once.")
    runs = [Run.open(folder) for folder in folders]
    first = runs[0]
    for run in runs:
        if run.config.learn != first.config.learn:
            raise RunError(
                f"{first.folder} learned {first.config.learn} and {run.folder} {run.config.learn}; "
                "give runs of one kind."
            )
    results = [load_result(run) for run in runs]
    prints = {(run.config.seed, run.description().get("data_fingerprint")) for run in runs}
    by_seed = len(prints) == len({seed for seed, _ in prints}) and len({run.config.data for run in runs}) == 1
    if len({fingerprint for _, fingerprint in prints}) > 1 and not by_seed:  # some sources draw their sides by the seed
        raise RunError("The runs use different data, so their numbers are not comparable; give runs of one dataset.")
    return results
