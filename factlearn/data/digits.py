"""The sources `permuted-digits` and `split-digits`: scikit-learn's digits as tasks; offline, learned in seconds."""

from typing import Literal

import numpy as np
from pydantic import Field

from factlearn.data.classes import ClassSequence, ClassTask, Rows
from factlearn.data.registry import ClassSourceConfig, source
from factlearn.errors import DatasetError

_PIXELS = 64
_DIGITS = 10
_TEST_SHARE = 5


class DigitsConfig(ClassSourceConfig):
    """Settings that both sources share."""

    count: int = Field(5, ge=1, le=100)
    """Number of tasks."""


class PermutedDigitsConfig(DigitsConfig):
    """Permuted digits."""

    source: Literal["permuted-digits"] = "permuted-digits"


class SplitDigitsConfig(DigitsConfig):
    """Split digits."""

    source: Literal["split-digits"] = "split-digits"


@source(
    "permuted-digits",
    learn="classes",
    config=PermutedDigitsConfig,
    summary="all ten digits in each task, with a different pixel order per task",
)
def open_permuted_digits(config: DigitsConfig, seed: int) -> ClassSequence:
    """Tasks with all ten digits, each with a fixed random order of pixels of its own."""
    train, test = _sides(seed)
    generator = np.random.default_rng([seed, 1])
    classes = tuple(str(digit) for digit in range(_DIGITS))
    tasks = []
    for number in range(1, config.count + 1):
        order = generator.permutation(_PIXELS)
        sides = (Rows(np.ascontiguousarray(side.values[:, order]), side.labels) for side in (train, test))
        tasks.append(ClassTask(f"order {number}", classes, *sides))
    return ClassSequence("permuted digits", tuple(tasks)).select(config.tasks)


@source("split-digits", learn="classes", config=SplitDigitsConfig, summary="different digits in each task")
def open_split_digits(config: DigitsConfig, seed: int) -> ClassSequence:
    """Tasks of different digits; by default five tasks of two digits."""
    count = config.count
    if _DIGITS % count or count > _DIGITS // 2:
        raise DatasetError(f"Ten digits cannot be split into {count} tasks of equal size; set data.count to 1, 2 or 5.")
    train, test = _sides(seed)
    each = _DIGITS // count
    tasks = []
    for first in range(0, _DIGITS, each):
        digits = range(first, first + each)
        sides = []
        for side in (train, test):
            kept = np.isin(side.labels, digits)
            sides.append(Rows(side.values[kept], side.labels[kept] - first))
        tasks.append(ClassTask(f"{first}-{digits[-1]}", tuple(map(str, digits)), *sides))
    return ClassSequence("split digits", tuple(tasks)).select(config.tasks)


def _sides(seed: int) -> tuple[Rows, Rows]:
    """Four out of five images are for training; pixels are standardised by the training side's mean and deviation."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng([seed, 0]).permutation(len(images))
    test, train = np.split(order, [len(order) // _TEST_SHARE])
    values = ((images - images[train].mean()) / images[train].std()).astype(np.float32)
    labels = labels.astype(np.int64)
    return Rows(values[train], labels[train]), Rows(values[test], labels[test])
