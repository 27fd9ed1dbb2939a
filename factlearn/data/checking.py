"""Decoding every image of a dataset once, so that a damaged file shows up before hours of work, not after."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from factlearn.data.samples import FactDataset, Sample
from factlearn.errors import DatasetError, ImageError
from factlearn.images import load_image


def readable(dataset: FactDataset, report: Callable[[str], None], *, threads: int = 2) -> FactDataset:
    """The samples whose images can be decoded; each of the others is reported in one line.

    Raises:
        DatasetError: if no image can be decoded.
    """

    def problem(sample: Sample) -> str:
        try:
            load_image(sample.path)
        except ImageError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(threads) as pool:
        problems = list(pool.map(problem, dataset.samples))
    for text in filter(None, problems):
        report(f"{text} It is skipped.")
    kept = tuple(sample for sample, text in zip(dataset.samples, problems, strict=True) if not text)
    if not kept:
        raise DatasetError(f"The dataset {dataset.name} has no usable images.")
    return replace(dataset, samples=kept)
