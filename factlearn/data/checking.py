"""Decoding every image of a dataset once, so that a damaged file is met before hours of work, not after."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Literal

from factlearn.data.samples import FactDataset, Sample
from factlearn.errors import DatasetError, ImageError
from factlearn.images import DEFAULT_MAX_PIXELS, load_image

_LISTED = 20


def readable(
    dataset: FactDataset,
    *,
    on_error: Literal["refuse", "skip"] = "refuse",
    report: Callable[[str], None] | None = None,
    max_pixels: int = DEFAULT_MAX_PIXELS,
    threads: int = 2,
) -> FactDataset:
    """The samples whose images can be decoded.

    Args:
        dataset: what to look through.
        on_error: "refuse" raises one error that names the damaged images; "skip" leaves them out.
        report: called with a line of text for each image left out.
        max_pixels: the largest image to accept.
        threads: images decoded at a time.

    Raises:
        DatasetError: if an image cannot be decoded (with "skip": if none can).
    """

    def problem(sample: Sample) -> str:
        try:
            load_image(sample.path, max_pixels=max_pixels)
        except ImageError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(threads) as pool:
        problems = list(pool.map(problem, dataset.samples))
    bad = [text for text in problems if text]
    if bad and on_error == "refuse":
        more = [f"and {len(bad) - _LISTED:,} more"] if len(bad) > _LISTED else []
        found = f"The dataset {dataset.name} has {len(bad)} images that cannot be used:"
        raise DatasetError("\n  ".join([found, *bad[:_LISTED], *more]))
    if report:
        for text in bad:
            report(f"{text} It is left out.")
    kept = tuple(sample for sample, text in zip(dataset.samples, problems, strict=True) if not text)
    if not kept:
        raise DatasetError(f"The dataset {dataset.name} has no image that can be used.")
    return replace(dataset, samples=kept)
