"""scikit-learn's digits as sequences of tasks: permuted, and split by class. Complete offline, learned in seconds."""

import numpy as np

from factlearn.data.classes import ClassSequence, ClassTask, Rows
from factlearn.errors import DatasetError

_PIXELS = 64
_DIGITS = 10
_TEST_SHARE = 5


def permuted_digits(count: int, seed: int) -> ClassSequence:
    """`count` tasks, each all ten digits with their pixels in a fixed random order of its own."""
    train, test = _sides(seed)
    generator = np.random.default_rng([seed, 1])
    classes = tuple(str(digit) for digit in range(_DIGITS))
    tasks = []
    for number in range(1, count + 1):
        order = generator.permutation(_PIXELS)
        sides = (Rows(np.ascontiguousarray(side.values[:, order]), side.labels) for side in (train, test))
        tasks.append(ClassTask(f"order {number}", classes, *sides))
    return ClassSequence("permuted digits", tuple(tasks))


def split_digits(count: int, seed: int) -> ClassSequence:
    """`count` tasks of different digits; five tasks of two by default."""
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
    return ClassSequence("split digits", tuple(tasks))


def _sides(seed: int) -> tuple[Rows, Rows]:
    """Four of five images train; pixels are standardised by the training side's."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng([seed, 0]).permutation(len(images))
    test, train = np.split(order, [len(order) // _TEST_SHARE])
    values = ((images - images[train].mean()) / images[train].std()).astype(np.float32)
    labels = labels.astype(np.int64)
    return Rows(values[train], labels[train]), Rows(values[test], labels[test])
