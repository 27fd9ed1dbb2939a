"""The source `folder`: classification tasks from folders of images, one ImageFolder per task.

ROOT/TASK/train/CLASS/image.jpg     a task that is split already
ROOT/TASK/test/CLASS/image.jpg      (`val` and `valid` work as well as `test`)
ROOT/TASK/CLASS/image.jpg           one that is not: a share of every class, chosen by file name, is for testing
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from factlearn.config import Located
from factlearn.data.classes import ClassSequence, ClassTask, choose_tasks, task_of
from factlearn.data.registry import ClassSourceConfig, source
from factlearn.errors import DatasetError
from factlearn.images import find_images

Labelled = list[tuple[Path, str]]
_TEST_SIDES = ("test", "val", "valid")


class TaskFoldersConfig(ClassSourceConfig):
    """A folder that holds one folder per task."""

    root: Located
    """A folder with one subfolder per task."""
    classes: int | None = Field(None, ge=2)
    """At most this many classes per task, evenly spread; all if null."""

    @model_validator(mode="before")
    @classmethod
    def _root_named(cls, raw: Any) -> Any:
        if isinstance(raw, Mapping) and raw.get("root") is None:
            raise ValueError("root: name the folder of the data, here or with --set data.root=FOLDER")
        return raw


class FolderConfig(TaskFoldersConfig):
    """Folders of images."""

    source: Literal["folder"] = "folder"
    test_share: float = Field(0.3, gt=0, lt=1)
    """Share of each class's images for testing, if a task's folder has no train and test subfolders."""
    images: int | None = Field(None, ge=1)
    """At most this many training images per class, evenly spread; all if null."""


@source("folder", learn="classes", config=FolderConfig, summary="your own images, one folder per task and class")
def open_folder(config: FolderConfig, seed: int) -> ClassSequence:
    """One task per folder in the root, sorted by name or in the order asked for.

    Raises:
        DatasetError: if a folder is missing, or a class has no images.
    """
    root = config.root
    names = choose_tasks(_subfolders(root, "tasks"), config.tasks, str(root))
    tasks = (folder_task(root / name, name, config.classes, config.test_share, config.images) for name in names)
    return ClassSequence(root.name, tuple(tasks))


def folder_task(
    folder: Path, name: str, classes: int | None = None, test_share: float = 0.3, images: int | None = None
) -> ClassTask:
    """The task in one folder."""
    inside = _subfolders(folder, "classes")
    side = next((each for each in _TEST_SIDES if each in inside), None)
    if "train" in inside and side:
        train, test = _labelled(folder / "train"), _labelled(folder / side)
        for missing in sorted({label for _, label in train} ^ {label for _, label in test}):
            lacks = "train" if missing in {label for _, label in test} else side
            raise DatasetError(f"The class {missing!r} has no images in {folder / lacks}; add some or remove it.")
    else:
        train, test = split_by_name(_labelled(folder), folder, test_share)
    return task_of(name, train, test, folder, classes, images)


def _subfolders(folder: Path, what: str) -> list[str]:
    """The names of the folders in a folder, sorted."""
    if not folder.is_dir():
        raise DatasetError(f"The folder {folder} {'is a file' if folder.exists() else 'does not exist'}.")
    names = sorted(each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
    if not names:
        raise DatasetError(f"The folder {folder} holds no folders; its {what} must be folders of images.")
    return names


def _labelled(folder: Path) -> Labelled:
    """Every image below each subfolder, whose name is the class."""
    return [(path, name) for name in _subfolders(folder, "classes") for path in find_images(folder / name)]


def split_by_name(images: Labelled, folder: Path, test_share: float) -> tuple[Labelled, Labelled]:
    """Set a share of every class aside for testing, chosen by a hash of the file names whatever their order."""
    by_class: dict[str, list[Path]] = {}
    for path, label in images:
        by_class.setdefault(label, []).append(path)
    train, test = [], []
    for label, paths in by_class.items():
        if len(paths) < 2:
            raise DatasetError(
                f"The class {label!r} in {folder} has one image; it needs two, one to learn from and one to test on."
            )
        mixed = sorted(paths, key=lambda path: hashlib.sha256(path.relative_to(folder).as_posix().encode()).digest())
        cut = min(max(round(len(mixed) * test_share), 1), len(mixed) - 1)
        chosen = set(mixed[:cut])
        test += [(path, label) for path in paths if path in chosen]
        train += [(path, label) for path in paths if path not in chosen]
    return train, test
