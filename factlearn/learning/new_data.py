"""Opening data that is to be added to a run: a manifest of facts, or a folder of class folders."""

from pathlib import Path

from factlearn.data.classes import ClassSequence
from factlearn.data.folder import folder_task
from factlearn.data.manifest import read_manifest
from factlearn.data.rows import MANIFEST_SUFFIXES
from factlearn.data.samples import FactDataset
from factlearn.errors import DatasetError
from factlearn.progress import say


def open_new_facts(path: Path, seed: int) -> FactDataset:
    """The photos of a manifest; where it has no `split`, one is made, as for a run's first data.

    Raises:
        DatasetError: if the manifest cannot be used, or has no photos to learn from.
    """
    if path.suffix.lower() not in MANIFEST_SUFFIXES:
        raise DatasetError(f"{path} is not a manifest of facts; give one of {', '.join(MANIFEST_SUFFIXES)}.")
    dataset = read_manifest(path, seed=seed, report=say)
    if not len(dataset.of_split("train")):
        raise DatasetError(f"{path} has no training images; mark some rows with split train.")
    return dataset


def open_new_classes(path: Path) -> ClassSequence:
    """The photos of a folder with one folder per class."""
    return ClassSequence(path.name, (folder_task(path, path.name),))
