import numpy as np
import pytest

from factlearn.data.digits import PermutedDigitsConfig, SplitDigitsConfig, open_permuted_digits, open_split_digits
from factlearn.errors import DatasetError


def permuted(count, seed, tasks=None):
    return open_permuted_digits(PermutedDigitsConfig(count=count, tasks=tasks), seed)


def split(count, seed):
    return open_split_digits(SplitDigitsConfig(count=count), seed)


def test_permuted_digits_are_the_same_images_in_other_orders():
    first, second = permuted(2, seed=0).tasks
    assert np.array_equal(first.train.labels, second.train.labels)
    assert not np.array_equal(first.train.values, second.train.values)
    assert np.allclose(np.sort(first.test.values, axis=1), np.sort(second.test.values, axis=1))
    assert permuted(2, seed=0).fingerprint == permuted(2, seed=0).fingerprint
    assert permuted(2, seed=0).fingerprint != permuted(2, seed=1).fingerprint


def test_split_digits_share_no_class():
    tasks = split(5, seed=0).tasks
    assert [task.classes for task in tasks] == [("0", "1"), ("2", "3"), ("4", "5"), ("6", "7"), ("8", "9")]
    assert sum(len(task.train) + len(task.test) for task in tasks) == 1797
    with pytest.raises(DatasetError, match="equal size"):
        split(3, seed=0)


def test_tasks_are_chosen_by_name_without_changing_them():
    (second,) = permuted(3, seed=0, tasks=["order 2"]).tasks
    assert np.array_equal(second.train.values, permuted(3, seed=0).tasks[1].train.values)
    with pytest.raises(DatasetError, match="no task 'order 4'; its tasks are order 1, order 2, order 3"):
        permuted(3, seed=0, tasks=["order 4"])
