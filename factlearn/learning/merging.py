"""Merging runs that were trained apart on the same features: their sums add, and the result knows what both do.

The second run's tasks become tasks added to the first, as `factlearn learn --data` would have added them: their photo
records are kept under `added/`, and one more stage holds the outputs solved from all images together.
"""

import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from factlearn.errors import RunError
from factlearn.facts import Fact
from factlearn.files import atomic_directory, write_json
from factlearn.learning.facts import save_language
from factlearn.learning.problem import Problem
from factlearn.learning.records import Record, Row, write_record
from factlearn.learning.resolving import (
    check_out,
    closed_form_of,
    feature_tensors,
    labelled_learner,
    reopened,
    solve_stage,
)
from factlearn.learning.runs import Run
from factlearn.lifelong.ridge import Ridge

_SAME = ("learn", "model", "language", "strategy")
Records = Mapping[str, tuple[list[Row], dict[str, Any]]]


def merge(run: Run, other: Run, out: Path) -> Run:
    """One run that knows what two know, as if one had seen the images of both.

    Args:
        run: learned by ridge, all its tasks.
        other: learned by ridge on the same features.
        out: the run directory to make.

    Raises:
        RunError: if their features differ, they have photos in common, or either has tasks left to learn.
    """
    check_out(out)
    _check_configs(run, other)
    strategy, added = (closed_form_of(each, "merging") for each in (run, other))
    features = feature_tensors(run)
    _check_features(run, other, features, feature_tensors(other))
    ours, records = _records_by_task(run), _records_by_task(other)
    _check_photos(run, other, ours, records)
    names = _new_names(run, other)
    shared = getattr(run.config.model, "heads", "own") == "shared"
    places = torch.arange(len(added.sums)) + (0 if shared else len(strategy.sums))
    strategy.join(added, places)
    with atomic_directory(out) as folder:
        ignored = shutil.ignore_patterns("checkpoint", "usage.safetensors")
        shutil.copytree(run.folder, folder, dirs_exist_ok=True, ignore=ignored)
        fresh = Run.open(folder)
        _list_once(fresh, ours, records)
        _add_tasks(fresh, other, records, names)
        fresh = Run.open(folder)
        problem = reopened(fresh, features)
        merged = [*run.description().get("merged", ()), str(other.folder)]
        write_json(folder / "run.json", {**run.description(), "merged": merged})
        _measure_likelihoods(fresh, problem, strategy)
        solve_stage(fresh, problem, strategy, run.finished_stages() + 1, len(fresh.task_names()))
    return Run.open(out)


def _measure_likelihoods(run: Run, problem: Problem, strategy: Ridge) -> None:
    """Measure anew, among the facts of both runs, how likely photos are, if all of them are still there."""
    tasks = range(len(problem.tasks))
    photos = [problem.labelled_photos(task) for task in tasks]
    changed = run.images.gone | run.images.edited
    if not len(strategy.unlikely) or any(path in changed for each in photos for path, _ in each):
        return
    strategy.unlikely = torch.zeros_like(strategy.unlikely)
    for task in tasks:
        strategy.measure_likelihood(labelled_learner(problem, task, range(len(photos[task])), len(tasks)))


def _check_configs(run: Run, other: Run) -> None:
    for name in _SAME:
        one, two = (getattr(each.config, name, None) for each in (run, other))
        if one != two:
            raise RunError(f"{run.folder} and {other.folder} differ in their config's {name}; merge runs that agree.")
    if run.config.learn == "facts" and run.language().fingerprint != other.language().fingerprint:
        raise RunError(f"{run.folder} and {other.folder} have different language spaces; use the same word vectors.")
    for each in (run, other):
        left = set(each.task_names()) - set(each.stage(each.check_stage())["tasks"])
        if left:
            raise RunError(f"{each.folder} has tasks left to learn ({min(left)}); learn them first.")
        if each.tasks_json().get("values") is not None:
            raise RunError(f"{each.folder} learned from rows of numbers; only runs of photos can be merged.")


def _check_features(run: Run, other: Run, ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> None:
    """Refuse runs whose features are not the same to the last bit: sums of different features do not add."""
    names = sorted({*ours, *theirs})
    differing = [n for n in names if n not in ours or n not in theirs or not ours[n].equal(theirs[n])]
    if differing:
        why = {
            "standardise": "they were standardised by different first tasks; set model.standardise to false",
            "random": "their random features have other seeds; use the same seed",
            "shared": "their hidden layers have other weights; use the same seed, or model.hidden: []",
        }.get(differing[0].partition(".")[0], f"{differing[0]} has other weights")
        raise RunError(f"The features of {run.folder} and {other.folder} differ: {why}.")


def _records_by_task(run: Run) -> dict[str, tuple[list[Row], dict[str, Any]]]:
    """The photo rows of each of a run's tasks and what is to be said about them."""
    first = Record.read(run.folder / "data")
    if first is None:
        raise RunError(f"{run.folder} has no record of its photos (an old run); train it again.")
    additions = run.additions()
    found: dict[str, tuple[list[Row], dict[str, Any]]] = {}
    for task in run.tasks_json()["tasks"]:
        name = task["name"]
        record = Record.read(run.addition_folder(name)) if name in additions else first
        assert record is not None
        rows = [row for row in record.rows if name in additions or _belongs(row, task)]
        found[name] = (rows, {**record.about, **_about_task(name, task)})
    return found


def _about_task(name: str, task: Mapping[str, Any]) -> dict[str, Any]:
    return {"tasks": [{"name": name, "classes": task["classes"]}]} if "classes" in task else {}


def _belongs(row: Row, task: Mapping[str, Any]) -> bool:
    if "classes" in task:
        return bool(row["task"] == task["name"])
    return bool(row["subject"]) and str(Fact(row["subject"], row["predicate"], row["object"])) in task["facts"]


def _labelled(records: Records, split: str | None = None) -> set[tuple[Any, ...]]:
    """Photos by content, each with what it shows."""
    return {_key(row) for rows, _ in records.values() for row in rows if split in (None, row["split"])}


def _key(row: Row) -> tuple[Any, ...]:
    return (row["checksum"], *(row.get(key) for key in ("subject", "predicate", "object", "class")))


def _check_photos(run: Run, other: Run, ours: Records, theirs: Records) -> None:
    """Refuse to count a training photo twice."""
    both = _labelled(ours, "train") & _labelled(theirs, "train")
    if both:
        raise RunError(
            f"{run.folder} and {other.folder} have both learned {len(both)} of the same photos, which would count "
            "twice; let one forget them first."
        )


def _list_once(fresh: Run, ours: Records, theirs: Records) -> None:
    """Leave out of the first record what only the second run's tasks teach, if both came from one collection."""
    record = Record.read(fresh.folder / "data")
    assert record is not None
    doubled = _labelled(theirs) - _labelled(ours)
    rows = [row for row in record.rows if _key(row) not in doubled]
    if len(rows) < len(record.rows):
        unlisted = record.about.get("forgotten", 0) + len(record.rows) - len(rows)
        write_record(record.folder, rows, {**record.about, "forgotten": unlisted})


def _new_names(run: Run, other: Run) -> dict[str, str]:
    """The names of the second run's tasks in the merged one: their own, with a number where they are taken."""
    taken = set(run.task_names())
    names = {}
    for name in other.task_names():
        new = next(each for n in count(1) if (each := name if n == 1 else f"{name}-{n}") not in taken)
        taken.add(new)
        names[name] = new
    return names


def _add_tasks(fresh: Run, other: Run, records: Records, names: Mapping[str, str]) -> None:
    """Make the second run's tasks additions of the new one."""
    if fresh.config.learn == "facts":
        language = fresh.language()
        language.learn_units(other.language())
        save_language(fresh, language)
    number = len(fresh.additions())
    tasks = fresh.tasks_json()
    for place, task in enumerate(other.tasks_json()["tasks"], 1):
        new = names[task["name"]]
        rows, about = records[task["name"]]
        if "tasks" in about:
            about = {**about, "tasks": [{**about["tasks"][0], "name": new}]}
            rows = [{**row, "task": new} for row in rows]
        about = {"epochs": None, "from": str(other.folder), **about, "number": number + place}
        write_record(fresh.addition_folder(new), rows, about)
        tasks["tasks"].append({**task, "name": new})
    write_json(fresh.folder / "tasks.json", tasks)
