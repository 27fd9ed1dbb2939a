"""The images of a run: those it was started with and those added since, and which of them have changed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factlearn.data.classes import ClassSequence, Pictures
from factlearn.data.registry import open_source
from factlearn.data.samples import FactDataset, Sample
from factlearn.errors import FactlearnError, RunError
from factlearn.learning.records import Data, Record, class_photo_id
from factlearn.progress import say

if TYPE_CHECKING:
    from factlearn.learning.runs import Run

_NAMED = 3


@dataclass(frozen=True)
class RunImages:
    """The images of a run.

    Attributes:
        first: what the run was started with.
        added: by the name of the task that each addition is.
        epochs: of added tasks that have their own number.
        gone: photos that no longer exist.
        edited: photos whose content is no longer the recorded one.
        new: how many images the source has now that the run does not know.
        dropped: how many images that still exist the source no longer lists.
    """

    first: Data
    added: Mapping[str, Data] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)
    gone: frozenset[Path] = frozenset()
    edited: frozenset[Path] = frozenset()
    new: int = 0
    dropped: int = 0

    @cached_property
    def whole(self) -> Data:
        """Everything as one dataset; ids of added photos start with the name of their task."""
        if isinstance(self.first, ClassSequence):
            return replace(self.first, tasks=tuple(task for part in self._parts() for task in part.tasks))
        samples: list[Sample] = list(self.first.samples)
        for name, part in self.added.items():
            assert isinstance(part, FactDataset)
            samples += [replace(sample, id=f"{name}/{sample.id}") for sample in part.samples]
        return replace(self.first, samples=tuple(samples))

    def _parts(self) -> list[Any]:
        return [self.first, *self.added.values()]

    def of_task(self, name: str) -> Data:
        """The part of the data that a task learns from."""
        return self.added.get(name, self.first)

    def before(self, added: Sequence[str]) -> "RunImages":
        """What there was when only these tasks had been added."""
        return replace(self, added={name: self.added[name] for name in added})

    def remaining(self, samples: Iterable[Sample]) -> list[Sample]:
        """The samples whose photos are still there."""
        return [sample for sample in samples if sample.path not in self.gone]

    def check_unchanged(self, task: str, paths: Iterable[Path]) -> None:
        """Refuse to learn a task from photos that are gone or edited.

        Raises:
            RunError: naming the first of them.
        """
        changed = [path for path in dict.fromkeys(paths) if path in self.gone or path in self.edited]
        if changed:
            named = ", ".join(map(str, changed[:_NAMED])) + (", ..." if len(changed) > _NAMED else "")
            what = "1 training photo was" if len(changed) == 1 else f"{len(changed)} training photos were"
            raise RunError(f"{task} cannot be learned: {what} removed or edited since ({named}); restore them.")

    def changes(self) -> str:
        """What has changed in a few words; empty if nothing has."""
        counts = (
            (self.new, "new row ignored", "new rows ignored"),
            (self.dropped, "row no longer listed", "rows no longer listed"),
            (len(self.gone), "photo gone", "photos gone"),
            (len(self.edited), "photo edited", "photos edited"),
        )
        return ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts if count)


def open_images(run: "Run") -> RunImages:
    """The images of a run, looked up where they are now; says in one line what has changed.

    Raises:
        RunError: if the run keeps no record of its photos and its data has changed.
    """
    record = Record.read(run.folder / "data")
    records = {name: _record(run, name) for name in run.additions()}
    if record is None:
        first = open_source(run.config.data, run.config.seed)
        run.check_data(first.fingerprint)
        new, dropped = 0, set()
    else:
        places = _current_places(run)
        record = record.moved(places)
        first = record.data
        forgotten = record.about.get("forgotten", 0)  # on purpose: the source may well list them still
        new = max(len(places.keys() - {row["id"] for row in record.rows}) - forgotten, 0)
        dropped = {Path(row["path"]) for row in record.rows if places and row["id"] not in places}
    compared = [each.compare() for each in (record, *records.values()) if each is not None]
    gone = frozenset().union(*(gone for gone, _ in compared))
    images = RunImages(
        first,
        {name: each.data for name, each in records.items()},
        {name: each.about["epochs"] for name, each in records.items() if each.about.get("epochs")},
        gone,
        frozenset().union(*(edited for _, edited in compared)),
        new,
        len(dropped - gone),
    )
    if images.changes():
        say(f"The data of {run.folder} has changed since it was recorded: {images.changes()}.")
    return images


def _record(run: "Run", name: str) -> Record:
    record = Record.read(run.addition_folder(name))
    if record is None:
        raise RunError(f"{run.addition_folder(name)} is missing; restore the run from a backup.")
    return record


def _current_places(run: "Run") -> dict[str, Path]:
    """Where the source has each image now, by id; nothing if it cannot be opened any more."""
    try:
        now: Data = run.config.data.open_remaining(run.config.seed)
    except FactlearnError:
        return {}
    if isinstance(now, FactDataset):
        return {sample.id: sample.path.absolute() for sample in now.samples}
    return {
        class_photo_id(task.name, path, examples.root): path.absolute()
        for task in now.tasks
        for examples in (task.train, task.test)
        if isinstance(examples, Pictures)
        for path in examples.paths
    }
