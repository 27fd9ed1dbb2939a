"""Teaching a run another task at any time: new photos, new facts or classes, new words.

The task is recorded before it is learned, in an order that a kill cannot break: the photos (`added/NAME/`), the
language space, then `tasks.json`, which is what makes the task part of the run. From there on it is a task like any
other: interrupted, it resumes bit for bit, and its initial weights and the order of its images are those it would have
had if it had been planned.
"""

import re
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from factlearn import processes
from factlearn.data.samples import FactDataset
from factlearn.data.tasks import Task, TaskSplit
from factlearn.errors import DatasetError, RunError
from factlearn.files import write_json
from factlearn.learning.config import ClassesConfig
from factlearn.learning.facts import save_language
from factlearn.learning.new_data import open_new_classes, open_new_facts
from factlearn.learning.records import Data, Record, Row, about_data, rows_of, same_photos, write_record
from factlearn.learning.runs import Run
from factlearn.learning.training import learn_more
from factlearn.lifelong.registry import METHODS, make_strategy
from factlearn.progress import say

_NAME = re.compile(r"\w[\w .+-]*")


def learn_data(run: Run | Path | str, data: Path | str, *, name: str | None = None, epochs: int | None = None) -> Run:
    """Add a task to a run and learn it, after the run's remaining tasks.

    The same call again resumes where an interrupted one stopped. Photos of earlier tasks are not needed.

    Args:
        data: a manifest of facts (`split` may be missing), or a folder of class folders.
        name: of the task; by default that of the file or folder, with a number if other data has that name.
        epochs: number of passes over its photos; the config's if not given.

    Raises:
        FactlearnError: if the task cannot be added; the run is as it was.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    run.check_stage()
    _check_method(run)
    path = Path(data).expanduser().absolute()
    opened = _open(run, path)
    rows = rows_of(opened)
    task = _task_name(run, name or path.stem, rows, numbered=name is None)
    if task in run.additions():
        _check_epochs(run, task, epochs)
    elif processes.first():
        _record(run, task, opened, rows, {"from": str(path), "epochs": epochs})
    processes.wait()
    run.__dict__.pop("images", None)  # the caller's run has more of them now
    run = Run.open(run.folder)
    if processes.first():
        _list_in_description(run)
    return _learn(run, task)


def _check_method(run: Run) -> None:
    if len(make_strategy(run.config.strategy).stages([0, 1])) == 1:
        title = METHODS.find(run.config.strategy.name).title
        raise RunError(
            f"{run.folder} was learned with {title}, which learns all tasks at once, so there is nothing to add to; "
            "train again with all the data, or use another strategy."
        )


def _open(run: Run, path: Path) -> Data:
    if not isinstance(run.config, ClassesConfig):
        dataset = open_new_facts(path, run.config.seed)
        _check_sides(run, path, dataset)
        if not len(dataset.of_split("test")) and not run.images.remaining(run.data.of_split("test").samples):
            raise DatasetError(f"{path} has no test images, and none of {run.folder} is left; mark some rows as test.")
        return dataset
    tasks = run.tasks_json()
    if tasks.get("values") is not None:
        raise RunError(f"{run.folder} learned from rows of {tasks['values']} numbers; photos cannot be added to it.")
    sequence = open_new_classes(path)
    known, new = len(tasks["tasks"][0]["classes"]), len(sequence.tasks[0].classes)
    if run.config.model.heads == "shared" and known != new:
        raise DatasetError(f"{path} has {new} classes; the tasks of {run.folder} share one head of {known}.")
    return sequence


def _check_sides(run: Run, path: Path, new: FactDataset) -> None:
    """Refuse photos that the run learns from as test photos, and the other way round."""
    known = {sample.path: sample for sample in run.data.samples}
    for sample in new.samples:
        before = known.get(sample.path)
        if before is not None and before.split != sample.split:
            raise DatasetError(
                f"{path}: {sample.id} is {sample.split}, but {before.split} in {run.folder}; a photo is for training "
                "or for testing, not both."
            )


def _task_name(run: Run, name: str, rows: list[Row], *, numbered: bool) -> str:
    """The task's name: one not in use, or the one under which exactly this data was added before."""
    if not _NAME.fullmatch(name):
        raise RunError(f"{name!r} cannot name a task; use letters, digits, spaces, '-', '_', '+' and '.' in --name.")
    added, taken = run.additions(), run.task_names()
    for number in count(1):
        tried = name if number == 1 else f"{name}-{number}"
        if tried in added and (record := Record.read(run.addition_folder(tried))) and same_photos(record.rows, rows):
            return tried
        if tried not in taken:
            return tried
        if not numbered:
            what = "was added with other data" if tried in added else "is a task already"
            raise RunError(f"{tried!r} {what} in {run.folder}; choose another --name.")
    raise AssertionError


def _check_epochs(run: Run, task: str, epochs: int | None) -> None:
    record = Record.read(run.addition_folder(task))
    if record and epochs is not None and epochs != record.about["epochs"]:
        before = record.about["epochs"] or run.config.training.epochs
        raise RunError(f"{task!r} was added to {run.folder} with {before} epochs; repeat that or leave --epochs out.")


def _record(run: Run, task: str, opened: Data, rows: list[Row], about: dict[str, Any]) -> None:
    """Make the data a task of the run; what is written first means nothing until tasks.json names the task."""
    language = None
    if isinstance(opened, FactDataset):
        language = run.language()
        language.embed(opened.facts)
    else:
        opened = replace(opened, tasks=(replace(opened.tasks[0], name=task),))
        rows = [{**row, "task": task} for row in rows]
    tasks = run.tasks_json()
    if tasks.get("values") is None and Record.read(run.folder / "data") is None:
        first = run.images.first  # of a run made before photos were recorded
        write_record(run.folder / "data", rows_of(first), about_data(first))
    about = {**about_data(opened), **about, "number": len(run.additions()) + 1}
    write_record(run.addition_folder(task), rows, about)
    if language is not None:
        save_language(run, language)
    write_json(run.folder / "tasks.json", {**tasks, "tasks": [*tasks["tasks"], _task_entry(task, opened)]})


def _task_entry(task: str, opened: Data) -> dict[str, Any]:
    if isinstance(opened, FactDataset):
        return TaskSplit("", (Task(task, opened.of_split("train").facts),)).to_json()["tasks"][0]  # type: ignore[no-any-return]
    return {"name": task, "classes": list(opened.tasks[0].classes)}


def _list_in_description(run: Run) -> None:
    """Have run.json list what was added."""
    records = [record for name in run.additions() if (record := Record.read(run.addition_folder(name)))]
    listed = [
        {"name": record.folder.name, "photos": len(record.rows), "from": record.about["from"]} for record in records
    ]
    description = run.description()
    if description.get("added") != listed:
        write_json(run.folder / "run.json", {**description, "added": listed})


def _learn(run: Run, task: str) -> Run:
    """Learn the tasks that are left, up to the one added."""
    learned = run.stage(run.finished_stages())["tasks"]
    if task in learned:
        say(f"Nothing to do: {run.folder} has learned {task!r} already.")
        return run
    left = [name for name in run.task_names() if name not in learned]
    before = left[: left.index(task)]
    if before:
        say(f"Learning {', '.join(before)} first: planned before {task}.")
    return learn_more(run, count=len(before) + 1)
