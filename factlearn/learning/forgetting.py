"""Forgetting on purpose: facts, classes or single photos are taken out of a run as if it had never seen them.

What ridge keeps are sums over images, so an image is taken out by subtracting what it added. That takes the image
itself, because the sum of squared features is not kept for each fact. The new run has one stage, what it knows now, and
nothing in it names what was forgotten: tasks, photo records and config no longer do.

What stays: the statistics that features are standardised by and features adapted to the first task depend, if they are
used, on the first task's images; and the posterior's temperature was measured while the fact was known.
"""

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from factlearn.data.tasks import choose_facts
from factlearn.errors import DatasetError, RunError
from factlearn.facts import Fact
from factlearn.files import atomic_directory, atomic_write, write_json
from factlearn.learning.config import parse_config
from factlearn.learning.problem import Problem, problem_class
from factlearn.learning.records import Record, Row, write_record
from factlearn.learning.resolving import closed_form_of, feature_tensors, labelled_learner, reopened, solve_stage
from factlearn.learning.results import load_model
from factlearn.learning.runs import Run
from factlearn.lifelong.ridge import Ridge
from factlearn.progress import say

_KEPT = ("config.yaml", "run.json", "tasks.json", "frozen.safetensors", "data", "added", "language")


@dataclass(frozen=True)
class Forgotten:
    """What is to be forgotten.

    Attributes:
        numbers: of facts or classes, among all of the run.
        labels: their names, each with its task's.
        photos: single photos.
    """

    numbers: frozenset[int]
    labels: frozenset[tuple[str, str]]
    photos: frozenset[Path]

    def has_row(self, row: Row, task: str) -> bool:
        """Whether a row of a photo record is to go; `task` names the added task that the record is of, if it is."""
        if "subject" in row:
            fact = str(Fact(row["subject"], row["predicate"], row["object"])) if row["subject"] else ""
            named = any(label == fact and task in ("", name) for name, label in self.labels)
        else:
            named = (row["task"], row["class"]) in self.labels
        return named or Path(row["path"]) in self.photos


def forget(
    run: Run, names: Sequence[str] = (), photos: Sequence[Path] = (), *, out: Path | None = None, drop: bool = False
) -> Run:
    """A copy of a run that has never seen some facts, classes or photos.

    Args:
        run: learned by ridge.
        names: facts, patterns such as `<person, *, tennis>`, or classes.
        photos: single photos, training or test; their facts stay.
        out: the run directory to make; the run itself is replaced if not given.
        drop: where training photos are gone, leave their part in the sums; the facts are still never answered again.

    Raises:
        RunError: if the sums cannot be subtracted, or nothing would be left.
    """
    if out is not None and out.exists():
        raise RunError(f"{out} exists already; choose another --out.")
    strategy = closed_form_of(run, "forgetting")
    problem = problem_class(run.config).of_run(run, load_model(run))
    chosen = _chosen(run, problem, names, photos)
    learned = len(run.stage(run.finished_stages())["tasks"])
    taken = _take_out(run, problem, strategy, chosen, learned, drop=drop)
    strategy.drop(chosen.numbers)
    features = feature_tensors(run)
    with atomic_directory(out or run.folder) as folder:
        left = _write_without(run, chosen, problem, folder)
        fresh = Run.open(folder)
        problem = reopened(fresh, features)
        fresh.describe(**_description(run, problem, len(chosen.numbers), taken))
        solve_stage(fresh, problem, strategy, 1, sum(place < learned for place in left))
    return Run.open(out or run.folder)


def _chosen(run: Run, problem: Problem, names: Sequence[str], photos: Sequence[Path]) -> Forgotten:
    if run.tasks_json().get("values") is not None:
        raise RunError(f"{run.folder} learned from rows of numbers, which its source always gives; train it again.")
    if getattr(problem.model.suffix, "one_head", False):
        raise RunError(f"The tasks of {run.folder} share one head, so their classes cannot be forgotten.")
    numbers = frozenset(problem.numbers_of(names)) if names else frozenset()
    labels = problem.labels()
    counts = [sum(task == place for place, _ in labels) for task in range(len(problem.tasks))]
    for task, count in enumerate(counts):
        left = count - sum(labels[number][0] == task for number in numbers)
        if run.config.learn == "classes" and left == 1:
            raise RunError(f"{problem.tasks[task]} would be left with one class, and needs two; forget that one too.")
    if len(numbers) == len(labels):
        raise RunError(f"{run.folder} would be left with nothing; remove the whole run instead.")
    paths = frozenset(path.expanduser().absolute() for path in photos)
    known = {Path(row["path"]) for record in _records(run).values() for row in record.rows}
    for path in sorted(paths - known):
        raise RunError(f"{run.folder} has not seen {path}; its photos are listed in {run.folder}/data/photos.jsonl.")
    return Forgotten(numbers, frozenset((problem.tasks[labels[n][0]], labels[n][1]) for n in numbers), paths)


def _records(run: Run) -> dict[str, Record]:
    """The run's photo records, that of an added task under its name, the first under ""."""
    folders = {"": run.folder / "data", **{name: run.addition_folder(name) for name in run.additions()}}
    records = {name: Record.read(folder) for name, folder in folders.items()}
    if records[""] is None:
        raise RunError(f"{run.folder} has no record of its photos (an old run); train it again.")
    return {name: record for name, record in records.items() if record is not None}


def _take_out(run: Run, problem: Problem, strategy: Ridge, chosen: Forgotten, learned: int, *, drop: bool) -> int:
    """Subtract what the photos to be forgotten added to the sums; how many there were."""
    rows: dict[int, list[int]] = {}
    lost: list[Path] = []
    before = [0] * len(strategy.sums)
    for task in range(learned):
        for row, (path, number) in enumerate(problem.labelled_photos(task)):
            before[number] += 1
            if number not in chosen.numbers and path not in chosen.photos:
                continue
            before[number] -= 1
            if path in run.images.gone or path in run.images.edited:
                lost.append(path)
            else:
                rows.setdefault(task, []).append(row)
    for number, count in enumerate(before):
        if not count and number not in chosen.numbers:
            name = problem.labels()[number][1]
            raise RunError(f"{name} would be left without training photos; forget it as a whole.")
    if lost and not drop:
        raise RunError(
            f"{len(lost)} training photos to be forgotten are gone or edited ({lost[0]}), so their contribution "
            "cannot be subtracted; restore them, or use --drop, which removes the facts but leaves it in the sums."
        )
    if lost:
        say(f"{len(lost)} photos are gone: their contribution stays in the sums, but counts for no fact or class.")
    _note_statistics(run, problem, rows)
    for task, places in rows.items():
        strategy.add(labelled_learner(problem, task, places, learned), sign=-1)
    return sum(map(len, rows.values())) + len(lost)


def _note_statistics(run: Run, problem: Problem, tasks: Collection[int]) -> None:
    """Say what of forgotten photos of the first task stays in the features."""
    adapted = bool(getattr(run.config.strategy, "first_session_epochs", 0))
    if 0 in tasks and (adapted or problem.model.suffix.standardise is not None):
        how = "adapted to" if adapted else "standardised by"
        say(f"The features were {how} the first task's photos, including forgotten ones; that cannot be undone.")


def _write_without(run: Run, chosen: Forgotten, problem: Problem, folder: Path) -> list[int]:
    """Copy a run without its stages and without what is forgotten; the places of the tasks that are left."""
    for name in _KEPT:
        if (run.folder / name).is_dir():
            shutil.copytree(run.folder / name, folder / name)
        elif (run.folder / name).exists():
            shutil.copy2(run.folder / name, folder / name)
    tasks = _tasks_without(run.tasks_json(), chosen)
    names = [task["name"] for task in tasks["tasks"]]
    write_json(folder / "tasks.json", tasks)
    for name, record in _records(run).items():
        place = folder / ("data" if not name else f"added/{name}")
        shutil.rmtree(place)
        if name in ("", *names):
            _write_record_without(record, name, chosen, place)
    _write_config_without(run, chosen, problem, folder)
    return [place for place, name in enumerate(problem.tasks) if name in names]


def _tasks_without(tasks: dict[str, Any], chosen: Forgotten) -> dict[str, Any]:
    """The tasks as tasks.json has them, without labels to be forgotten and without tasks that are then empty."""
    left = []
    for task in tasks["tasks"]:
        gone = {label for name, label in chosen.labels if name == task["name"]}
        listed = [key for key in ("facts", "classes", "typical") if key in task]
        parts = {key: [each for each in task[key] if each not in gone] for key in listed}
        if parts.get("facts") or parts.get("classes"):
            left.append({**task, **parts})
    return {**tasks, "tasks": left}


def _write_record_without(record: Record, task: str, chosen: Forgotten, place: Path) -> None:
    rows = [row for row in record.rows if not chosen.has_row(row, task)]
    about = dict(record.about)
    if "tasks" in about:
        about = _tasks_without(about, chosen)
    about["forgotten"] = about.get("forgotten", 0) + len(record.rows) - len(rows)
    write_record(place, rows, about)


def _write_config_without(run: Run, chosen: Forgotten, problem: Problem, folder: Path) -> None:
    """Take subsets out of the config that name nothing any more."""
    raw = yaml.safe_load(run.config.to_yaml())
    subsets = raw.get("evaluation", {}).get("subsets") or {}
    gone = {label for _, label in chosen.labels}
    facts = [Fact.parse(label) for _, label in problem.labels() if label not in gone] if subsets else []
    kept = {}
    for name, patterns in subsets.items():
        named = [pattern for pattern in patterns if _names_some(pattern, facts)]
        if named:
            kept[name] = named
    if subsets:
        raw["evaluation"]["subsets"] = kept
        with atomic_write(folder / "config.yaml") as stream:
            stream.write(parse_config(raw, folder).to_yaml())


def _names_some(pattern: str, facts: list[Fact]) -> bool:
    try:
        return bool(choose_facts([pattern], facts))
    except DatasetError:
        return False


def _description(run: Run, problem: Problem, labels: int, photos: int) -> dict[str, Any]:
    """What run.json says of the new run; how much was forgotten, but not what."""
    before = run.description()
    past = before.get("forgotten", {"labels": 0, "photos": 0})
    forgotten = {"labels": past["labels"] + labels, "photos": past["photos"] + photos}
    kept = {key: value for key, value in before.items() if key not in ("format", "seed", "versions", "added")}
    added = [each for each in before.get("added", ()) if each["name"] in problem.tasks]
    about = {**kept, "data_fingerprint": problem.fingerprint, "forgotten": forgotten}
    return {**about, **({"added": added} if added else {})}
