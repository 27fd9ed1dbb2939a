"""What people call a run: its method, as the paper writes it, and what sets it apart from the others given."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from factlearn.classification.results import ClassResult
from factlearn.classification.results import load_result as load_class_result
from factlearn.classification.runs import ClassRun, open_any
from factlearn.config import LearningConfig
from factlearn.errors import RunError
from factlearn.learning.results import RunResult, load_result
from factlearn.learning.runs import Run, RunDirectory
from factlearn.lifelong.config import ImportanceConfig


class HasRun(Protocol):
    """What was found of a run, whatever its kind."""

    @property
    def run(self) -> RunDirectory: ...


class Staged(Protocol):
    """Anything that says which tasks were learned after each stage."""

    @property
    def learned(self) -> list[list[str]]: ...


AnyRun = TypeVar("AnyRun", bound=HasRun)

TITLES = {
    "finetune": "FineTune",
    "joint": "Joint",
    "mas": "MAS",
    "l-mas": "l-MAS",
    "mas-vector": "MAS-vector",
    "ewc": "EWC",
    "si": "SI",
    "lwf": "LwF",
    "ebll": "EBLL",
    "imm-mean": "IMM (mean)",
    "imm-mode": "IMM (mode)",
    "ridge": "Ridge (closed form)",
}


EXPLAINED = {
    "finetune": "learns each task in turn and does nothing about forgetting",
    "joint": "learns all tasks at once from all their images, which the others may not",
    "mas": "Memory Aware Synapses: measures which parameters the network's output depends on, and holds them",
    "l-mas": "Memory Aware Synapses, each layer by itself",
    "mas-vector": "Memory Aware Synapses, every output by itself",
    "ewc": "Elastic Weight Consolidation: holds the parameters that the likelihood depends on",
    "si": "Synaptic Intelligence: holds the parameters that brought the loss down while learning",
    "lwf": "Learning without Forgetting: keeps the old network's answers to the new images",
    "ebll": "Encoder Based Lifelong Learning: as LwF, and keeps a code of the features",
    "imm-mean": "Incremental Moment Matching: the mean of the networks after each task",
    "imm-mode": "Incremental Moment Matching: the networks after each task, weighed by what mattered to each",
    "ridge": "solves the outputs in closed form on features that never change",
}


def explained(results: Mapping[str, HasRun]) -> dict[str, str]:
    """What each method does, in a few words."""
    return {label: EXPLAINED[result.run.config.strategy.name] for label, result in results.items()}


def method_title(config: LearningConfig) -> str:
    """The method, and where its importance comes from if not from the training images."""
    strategy = config.strategy
    title = TITLES.get(strategy.name, strategy.name)
    if not isinstance(strategy, ImportanceConfig) or strategy.importance == "train":
        return title
    if isinstance(strategy.importance, str):
        return f"{title} ({'train + test' if strategy.importance == 'both' else strategy.importance})"
    return f"{title} (adapted)"


def at_once(result: Staged) -> bool:
    """Whether several tasks were learned as one, as Joint does."""
    return len(result.learned) == 1 and len(result.learned[0]) > 1


def strength(config: LearningConfig) -> float | None:
    """Lambda, where the method has one."""
    return getattr(config.strategy, "lambda_", None)


def group_runs(results: Sequence[AnyRun]) -> dict[str, list[AnyRun]]:
    """Runs by method; within a method they differ by seed alone.

    Runs of one method that differ in lambda are groups of their own; those that differ in something else are told
    apart by their folder's name.

    Raises:
        RunError: if there is none.
    """
    if not results:
        raise RunError("A report needs at least one run.")
    by_title: dict[str, list[AnyRun]] = {}
    for result in results:
        by_title.setdefault(method_title(result.run.config), []).append(result)
    groups: dict[str, list[AnyRun]] = {}
    for title, members in by_title.items():
        several = len({strength(result.run.config) for result in members}) > 1
        for result in members:
            label = f"{title}, λ = {strength(result.run.config):g}" if several else title
            names = (label, f"{label}, {result.run.folder.name}", f"{label}, {result.run.folder}")
            free = next((name for name in names if _fits(result, groups.get(name, []))), names[-1])
            groups.setdefault(free, []).append(result)
    return groups


def _fits(result: HasRun, group: Sequence[HasRun]) -> bool:
    """Whether a run differs from those of a group by its seed alone."""
    return all(_same_but_seed(result, other) for other in group) and not _seed_taken(result, group)


def _same_but_seed(one: HasRun, other: HasRun) -> bool:
    blank = {"seed": 0}
    return one.run.config.model_copy(update=blank) == other.run.config.model_copy(update=blank)


def _seed_taken(result: HasRun, taken: Sequence[HasRun]) -> bool:
    return result.run.config.seed in {other.run.config.seed for other in taken}


def first_of_each(groups: Mapping[str, Sequence[AnyRun]]) -> dict[str, AnyRun]:
    """The runs that share the lowest seed which every method has, or simply the first run of each."""
    shared = set.intersection(*({result.run.config.seed for result in group} for group in groups.values()))
    chosen = {}
    for label, group in groups.items():
        of_seed = [result for result in group if shared and result.run.config.seed == min(shared)]
        chosen[label] = (of_seed or list(group))[0]
    return chosen


def load_runs(folders: Sequence[Path]) -> list[RunResult]:
    """Evaluate the runs of facts in these folders, each given once.

    Raises:
        RunError: if none is given, one is given twice or is of a classifier, or they are of different data.
    """
    results = load_any_runs(folders)
    facts = [result for result in results if isinstance(result, RunResult)]
    if len(facts) < len(results):
        raise RunError("These are runs of a classifier; `factlearn report` shows and compares them.")
    return facts


def load_any_runs(folders: Sequence[Path]) -> list[RunResult] | list[ClassResult]:
    """Evaluate the runs in these folders, of facts or of classifiers, each given once.

    Raises:
        RunError: if none is given, one is given twice, or they are of different kinds or different data.
    """
    places = [folder.resolve() for folder in folders]
    if not places:
        raise RunError("Name at least one run directory.")
    for place, folder in zip(places, folders, strict=True):
        if places.count(place) > 1:
            raise RunError(f"{folder} is given twice; name each run once.")
    opened = [open_any(folder) for folder in folders]
    classifiers = [run for run in opened if isinstance(run, ClassRun)]
    facts = [run for run in opened if isinstance(run, Run)]
    if classifiers and facts:
        raise RunError(f"{facts[0].folder} learned facts and {classifiers[0].folder} classes; give runs of one kind.")
    results = [load_class_result(run) for run in classifiers] if classifiers else [load_result(run) for run in facts]
    if classifiers:  # whose sides can be drawn by the seed
        prints = {(run.config.seed, run.description().get("data_fingerprint")) for run in classifiers}
        same = len(prints) == len({seed for seed, _ in prints}) and len({run.config.data for run in classifiers}) == 1
    else:
        same = len({run.description().get("data_fingerprint") for run in facts}) == 1
    if not same:
        raise RunError("The runs are of different data, so their figures do not compare; give runs of one dataset.")
    return results
