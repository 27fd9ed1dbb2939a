"""Classification tasks from folders of images: any ImageFolder, one a task.

ROOT/TASK/train/CLASS/image.jpg      a task that is split
ROOT/TASK/test/CLASS/image.jpg       (`val` and `valid` are test sides as well)
ROOT/TASK/CLASS/image.jpg            a task that is not: a share of every class, chosen by the names, is the test
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from factlearn.data.classes import ClassSequence, ClassTask, choose_tasks, task_of
from factlearn.errors import DatasetError
from factlearn.images import find_images

Labelled = list[tuple[Path, str]]
_TEST_SIDES = ("test", "val", "valid")


def class_folders(
    root: Path, tasks: Sequence[str] | None = None, *, classes: int | None = None, test_share: float = 0.3
) -> ClassSequence:
    """One task for each folder in `root`, by name or in the order asked for.

    Raises:
        DatasetError: if a folder is missing, or a class has no images.
    """
    names = choose_tasks(subfolders(root, "tasks"), tasks, str(root))
    return ClassSequence(root.name, tuple(folder_task(root / name, name, classes, test_share) for name in names))


def folder_task(folder: Path, name: str, classes: int | None = None, test_share: float = 0.3) -> ClassTask:
    """The task in one folder."""
    inside = subfolders(folder, "classes")
    side = next((each for each in _TEST_SIDES if each in inside), None)
    if "train" in inside and side:
        train, test = _labelled(folder / "train"), _labelled(folder / side)
        for missing in sorted({label for _, label in train} ^ {label for _, label in test}):
            lacks = "train" if missing in {label for _, label in test} else side
            raise DatasetError(f"The class {missing!r} has no images in {folder / lacks}; add some or remove it.")
    else:
        train, test = split_by_name(_labelled(folder), folder, test_share)
    return task_of(name, train, test, folder, classes)


def subfolders(folder: Path, what: str) -> list[str]:
    """The names of the folders in a folder, sorted."""
    if not folder.is_dir():
        raise DatasetError(f"The folder {folder} {'is a file' if folder.exists() else 'does not exist'}.")
    names = sorted(each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
    if not names:
        raise DatasetError(f"The folder {folder} holds no folders; its {what} are folders of images.")
    return names


def _labelled(folder: Path) -> Labelled:
    """Every image below the folders of a folder, with their names as classes."""
    return [(path, name) for name in subfolders(folder, "classes") for path in find_images(folder / name)]


def split_by_name(images: Labelled, folder: Path, test_share: float) -> tuple[Labelled, Labelled]:
    """Set a share of every class aside for the test, the same whatever the order of files: by a hash of the names."""
    by_class: dict[str, list[Path]] = {}
    for path, label in images:
        by_class.setdefault(label, []).append(path)
    train, test = [], []
    for label, paths in by_class.items():
        if len(paths) < 2:
            raise DatasetError(
                f"The class {label!r} in {folder} has one image; it needs two, one to learn and one to test."
            )
        mixed = sorted(paths, key=lambda path: hashlib.sha256(path.relative_to(folder).as_posix().encode()).digest())
        cut = min(max(round(len(mixed) * test_share), 1), len(mixed) - 1)
        chosen = set(mixed[:cut])
        test += [(path, label) for path in paths if path in chosen]
        train += [(path, label) for path in paths if path not in chosen]
    return train, test
