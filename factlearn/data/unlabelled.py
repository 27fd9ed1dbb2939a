"""A folder of unlabelled images: for measuring importance, and for indexing."""

from pathlib import Path

from factlearn.data.samples import FactDataset, Sample
from factlearn.images import find_images


def folder_dataset(folder: Path | str) -> FactDataset:
    """Every image below a folder, without facts; an image's id is its path from there.

    Raises:
        DatasetError: if the folder is missing, unreadable, or holds no image.
    """
    folder = Path(folder)
    samples = tuple(Sample(path.relative_to(folder).as_posix(), path) for path in find_images(folder))
    return FactDataset(folder.resolve().name, samples)
