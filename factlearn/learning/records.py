"""The data of a run as the run directory remembers it, photo by photo, so that it outlives the collection.

    data/           what the run was started with
    added/NAME/     one task that `factlearn learn --data` added
        about.json      name, classes, epochs, and where it came from
        photos.jsonl    one line per photo and fact (or class): absolute path, split, id, size, mtime and checksum

The folders appear whole and never change. A run of rows of numbers has no `data/`, since its source always gives the
same rows; nor do runs made before this record existed.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from factlearn import places
from factlearn.data.classes import ClassSequence, ClassTask, Pictures
from factlearn.data.samples import FactDataset, Sample
from factlearn.errors import DatasetError, RunError
from factlearn.facts import UNIT_NAMES, Fact
from factlearn.files import atomic_directory, atomic_write, fingerprint, write_json

Data = FactDataset | ClassSequence
Row = dict[str, Any]
_EDGE_BYTES = 1 << 16


def photo_checksum(path: Path) -> str:
    """A checksum of a photo's size and both ends, which is all of most photos; of an object, what its store gives."""
    if places.is_remote(path):
        return places.content_key(path)
    size = places.status(path).size
    with places.open_file(path) as stream:
        head = stream.read(_EDGE_BYTES)
        stream.seek(max(len(head), size - _EDGE_BYTES))
        return fingerprint(size, head, stream.read())


def rows_of(data: Data) -> list[Row]:
    """One row per photo and fact, or class.

    Raises:
        DatasetError: if a photo cannot be read.
    """
    rows = _fact_rows(data) if isinstance(data, FactDataset) else _class_rows(data)
    marked = []
    for row in rows:
        path = Path(row["path"])
        try:
            status = places.status(path)
            mark = {"bytes": status.size, "modified": status.modified, "checksum": photo_checksum(path)}
        except OSError as error:
            raise DatasetError(f"The image {row['path']} cannot be read: {error.strerror or error}.") from error
        marked.append({**row, **mark})
    return marked


def _fact_rows(data: FactDataset) -> Iterator[Row]:
    for sample in data.samples:
        labels: list[tuple[Fact | None, Mapping[str, str]]] = [*sample.labels.items()] or [(None, sample.metadata)]
        for fact, metadata in labels:
            units = {unit: getattr(fact, unit) if fact else "" for unit in UNIT_NAMES}
            path = places.written(sample.path)
            yield {"path": path, "split": sample.split, **units, "id": sample.id, "metadata": dict(metadata)}


def _class_rows(data: ClassSequence) -> Iterator[Row]:
    for task in data.tasks:
        for side in ("train", "test"):
            examples = getattr(task, side)
            for path, label in zip(examples.paths, examples.labels.tolist(), strict=True):
                row = {"path": places.written(path), "split": side, "task": task.name, "class": task.classes[label]}
                yield {**row, "id": class_photo_id(task.name, path, examples.root)}


def class_photo_id(task: str, path: Path, root: Path) -> str:
    """Names a photo of a class wherever the data is stored."""
    return f"{task}/{path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name}"


def about_data(data: Data) -> dict[str, Any]:
    """What about.json says of data."""
    if isinstance(data, FactDataset):
        return {"name": data.name, "aliases": dict(data.aliases)}
    return {"name": data.name, "tasks": [{"name": task.name, "classes": list(task.classes)} for task in data.tasks]}


def photo_id(row: Row) -> str:
    """The id of a row's photo; once, the rows of a photo's further facts had ids of their own, `ID#FACT`."""
    identity: str = row["id"]
    return identity.removesuffix(f"#{fact_of(row)}") if "subject" in row else identity


def fact_of(row: Row) -> Fact | None:
    """The fact that a row of facts states."""
    return Fact(row["subject"], row["predicate"], row["object"]) if row["subject"] else None


def same_photos(one: list[Row], other: list[Row]) -> bool:
    """Whether two lists name the same photos with the same labels and content, wherever they are stored."""

    def bare(rows: list[Row]) -> list[Row]:
        return [{key: value for key, value in row.items() if key not in ("path", "modified", "task")} for row in rows]

    return bare(one) == bare(other)


def write_record(folder: Path, rows: list[Row], about: dict[str, Any]) -> None:
    """Keep data; the folder appears whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_directory(folder) as inside:
        with atomic_write(inside / "photos.jsonl") as stream:
            stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_json(inside / "about.json", about)


@dataclass(frozen=True)
class Record:
    """A folder that `write_record` wrote."""

    folder: Path
    about: dict[str, Any]
    rows: list[Row]

    @classmethod
    def read(cls, folder: Path) -> "Record | None":
        """The record in a folder, if there is one."""
        if not (folder / "about.json").is_file():
            return None
        try:
            about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
            lines = (folder / "photos.jsonl").read_text(encoding="utf-8").split("\n")
            return cls(folder, about, [json.loads(line) for line in lines if line])
        except (OSError, ValueError) as error:
            raise RunError(f"{folder} is damaged ({error}); restore the run from a backup.") from error

    def moved(self, found: dict[str, Path]) -> "Record":
        """The record with photos at the places where their source has them now, by id."""
        rows = [{**row, "path": str(found.get(photo_id(row), row["path"]))} for row in self.rows]
        return Record(self.folder, self.about, rows)

    @cached_property
    def data(self) -> Data:
        """The data as it was recorded, whether or not its photos are still there."""
        try:
            return self._classes() if "tasks" in self.about else self._facts()
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{self.folder} is damaged ({error}); restore the run from a backup.") from error

    def _facts(self) -> FactDataset:
        samples: dict[str, Sample] = {}
        for row in self.rows:
            fact = fact_of(row)
            known = samples.get(row["id"])
            if known is not None and fact is not None:
                samples[row["id"]] = known.showing({**known.labels, fact: row["metadata"]})
            else:
                samples[row["id"]] = Sample(row["id"], Path(row["path"]), fact, row["split"], row["metadata"])
        return FactDataset(self.about["name"], tuple(samples.values()), self.about["aliases"])

    def _classes(self) -> ClassSequence:
        tasks = []
        for task in self.about["tasks"]:
            sides = []
            for side in ("train", "test"):
                rows = [row for row in self.rows if (row["task"], row["split"]) == (task["name"], side)]
                labels = np.array([task["classes"].index(row["class"]) for row in rows], np.int64)
                sides.append(Pictures(tuple(Path(row["path"]) for row in rows), labels, Path("/")))
            tasks.append(ClassTask(task["name"], tuple(task["classes"]), *sides))
        return ClassSequence(self.about["name"], tuple(tasks))

    def compare(self) -> tuple[set[Path], set[Path]]:
        """The photos that are gone, and those that have been edited, since they were recorded."""
        gone, edited = set(), set()
        for row in self.rows:
            path = Path(row["path"])
            try:
                status = places.status(path)
                if (status.size, status.modified) == (row["bytes"], row["modified"]):
                    continue
                if status.size != row["bytes"] or photo_checksum(path) != row["checksum"]:
                    edited.add(path)
            except OSError:
                gone.add(path)
            except (KeyError, ValueError) as error:
                raise RunError(f"{self.folder} is damaged ({error}); restore the run from a backup.") from error
        return gone, edited
