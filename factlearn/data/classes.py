"""What every source of classes gives: a sequence of tasks, each with classes of its own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import DatasetError
from factlearn.files import fingerprint

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Pictures:
    """Image files and the number of each one's class.

    Attributes:
        root: the folder that paths are relative to in fingerprints.
        row_length: see `Rows`; images have none.
    """

    paths: tuple[Path, ...]
    labels: Labels
    root: Path
    row_length: ClassVar[None] = None

    def __len__(self) -> int:
        return len(self.paths)

    def of_class(self, label: int) -> "Pictures":
        """Only the images of one class."""
        kept = np.flatnonzero(self.labels == label)
        return replace(self, paths=tuple(self.paths[row] for row in kept), labels=self.labels[kept])

    def identity(self) -> Any:
        """Paths below the root, file sizes and labels."""
        try:
            return [[p.relative_to(self.root).as_posix(), p.stat().st_size] for p in self.paths], self.labels.tolist()
        except OSError as error:
            raise DatasetError(f"The image {error.filename} no longer exists.") from error


@dataclass(frozen=True)
class Rows:
    """Examples that are rows of numbers, such as the digits, and the number of each one's class."""

    values: NDArray[np.float32]
    labels: Labels

    @property
    def row_length(self) -> int:
        """How many numbers each row has."""
        return int(self.values.shape[1])

    def __len__(self) -> int:
        return len(self.values)

    def of_class(self, label: int) -> "Rows":
        """Only the rows of one class."""
        kept = self.labels == label
        return Rows(self.values[kept], self.labels[kept])

    def identity(self) -> Any:
        """A digest of the numbers, and the labels."""
        return fingerprint(self.values.tobytes()), self.labels.tolist()


Examples = Pictures | Rows


@dataclass(frozen=True)
class ClassTask:
    """One task: its classes, and examples of them to learn from and to test on."""

    name: str
    classes: tuple[str, ...]
    train: Examples
    test: Examples

    def __post_init__(self) -> None:
        if len(self.classes) < 2:
            raise DatasetError(f"The task {self.name!r} has {len(self.classes)} class; a task needs at least two.")
        for side, examples in (("train", self.train), ("test", self.test)):
            missing = set(range(len(self.classes))) - set(examples.labels.tolist())
            if missing:
                name = self.classes[min(missing)]
                raise DatasetError(f"The class {name!r} of the task {self.name!r} has no {side} images.")


@dataclass(frozen=True)
class ClassSequence:
    """Tasks in the order they are learned."""

    name: str
    tasks: tuple[ClassTask, ...]

    @cached_property
    def fingerprint(self) -> str:
        """Identifies exactly these tasks, classes and examples, wherever they are stored."""
        return fingerprint(*([t.name, t.classes, t.train.identity(), t.test.identity()] for t in self.tasks))

    @property
    def row_length(self) -> int | None:
        """How many numbers each example has, if examples are rows; None if they are images."""
        return self.tasks[0].train.row_length

    def select(self, names: Sequence[str] | None) -> "ClassSequence":
        """The tasks of these names, in this order; all if None."""
        by_name = {task.name: task for task in self.tasks}
        return replace(self, tasks=tuple(by_name[name] for name in choose_tasks(list(by_name), names, self.name)))

    def find_class(self, name: str) -> tuple[int, int]:
        """The position of a class's task, and of the class in it; write `task/class` where several tasks have it."""
        places = [
            (number, label)
            for number, task in enumerate(self.tasks)
            for label, each in enumerate(task.classes)
            if name.casefold() in (each.casefold(), f"{task.name}/{each}".casefold())
        ]
        if not places:
            import difflib

            known = [form for task in self.tasks for each in task.classes for form in (each, f"{task.name}/{each}")]
            close = difflib.get_close_matches(name, known, n=1)
            raise DatasetError(
                f"No task of {self.name} has a class {name!r}" + (f"; did you mean {close[0]!r}?" if close else ".")
            )
        if len(places) > 1:
            tasks = ", ".join(self.tasks[number].name for number, _ in places)
            raise DatasetError(f"Several tasks have a class {name!r} ({tasks}); write it as task/class.")
        return places[0]


def task_of(
    name: str,
    train: Sequence[tuple[Path, str]],
    test: Sequence[tuple[Path, str]],
    root: Path,
    limit: int | None = None,
    images: int | None = None,
) -> ClassTask:
    """A task of the classes that have images on both sides, at most `limit` of them, evenly spread.

    Args:
        images: at most this many training images of each class, evenly spread; all if not given.
    """
    classes = sorted({label for _, label in train} & {label for _, label in test})
    if limit is not None and limit < len(classes):
        classes = [classes[place * len(classes) // limit] for place in range(limit)]
    if images is not None:
        train = _thinned(train, images)
    return ClassTask(name, tuple(classes), _pictures(train, classes, root), _pictures(test, classes, root))


def _thinned(samples: Sequence[tuple[Path, str]], images: int) -> list[tuple[Path, str]]:
    """At most so many samples of each label, evenly spread, in their order."""
    by_label: dict[str, list[int]] = {}
    for place, (_, label) in enumerate(samples):
        by_label.setdefault(label, []).append(place)
    kept = sorted(
        places[number * len(places) // count]
        for places in by_label.values()
        for count in (min(images, len(places)),)
        for number in range(count)
    )
    return [samples[place] for place in kept]


def choose_tasks(tasks: Sequence[str], wanted: Sequence[str] | None, source: str) -> list[str]:
    """The names of the tasks asked for, in that order; all if None."""
    for name in wanted or ():
        if name not in tasks:
            raise DatasetError(f"{source} has no task {name!r}; its tasks are {', '.join(tasks)}.")
    if wanted is not None and len(set(wanted)) != len(wanted):
        raise DatasetError(f"data.tasks names a task twice: {', '.join(wanted)}.")
    return list(tasks if wanted is None else wanted)


def _pictures(samples: Iterable[tuple[Path, str]], classes: Sequence[str], root: Path) -> Pictures:
    numbers = {name: number for number, name in enumerate(classes)}
    kept = [(path, numbers[name]) for path, name in samples if name in numbers]
    return Pictures(tuple(path for path, _ in kept), np.array([n for _, n in kept], np.int64), root)
