"""Decoding every image of a dataset once, so that a damaged file shows up before hours of work, not after."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from factlearn.data.samples import FactDataset
from factlearn.errors import DatasetError, ImageError
from factlearn.images import load_image

_LISTED = 20


def problems_of(paths: Sequence[Path], *, threads: int = 2) -> list[str]:
    """Why each image cannot be decoded, in a sentence; empty where it can."""

    def problem(path: Path) -> str:
        try:
            load_image(path)
        except ImageError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(problem, paths))


def listed(problems: Sequence[str]) -> str:
    """The first problems, one indented line each, and how many more there are."""
    lines = list(problems[:_LISTED])
    if len(problems) > _LISTED:
        lines.append(f"and {len(problems) - _LISTED:,} more")
    return "".join(f"\n  {line}" for line in lines)


def check_readable(paths: Sequence[Path]) -> None:
    """Decode every image.

    Raises:
        ImageError: listing all that cannot be decoded.
    """
    problems = [text for text in problems_of(paths) if text]
    if problems:
        raise ImageError(
            f"{len(problems)} of {len(paths)} images cannot be read; repair or remove them, "
            f"or leave them out with --skip-unreadable:{listed(problems)}"
        )


def readable(dataset: FactDataset, report: Callable[[str], None], *, threads: int = 2) -> FactDataset:
    """The samples whose images can be decoded; each of the others is reported in one line.

    Raises:
        DatasetError: if no image can be decoded.
    """
    problems = problems_of([sample.path for sample in dataset.samples], threads=threads)
    for text in filter(None, problems):
        report(f"{text} It is skipped.")
    kept = tuple(sample for sample, text in zip(dataset.samples, problems, strict=True) if not text)
    if not kept:
        raise DatasetError(f"The dataset {dataset.name} has no usable images.")
    return replace(dataset, samples=kept)
