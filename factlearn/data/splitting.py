"""The split of a manifest that has no `split` column: about a fifth of each fact's photos are for testing.

Photos are taken in the manifest's order. Of each fact the first photo is for training, the second for testing, the next
three for training again; from the sixth on a hash of the seed and the photo's path decides. So rows that are appended
later never move a photo that was there before. A photo that shows several facts is on one side for all of them, and
where these ask for different sides, training comes first: every fact has a photo to learn from.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from factlearn.data.samples import Sample
from factlearn.facts import Fact

_ONE_IN = 5


def with_split(samples: Sequence[Sample], seed: int) -> list[Sample]:
    """The samples, each marked train or test; every fact of two photos or more has one to test on where possible."""
    train, test = Counter[Fact](), Counter[Fact]()
    sides = []
    for sample in samples:
        side = test if _is_test(sample, train, test, seed) else train
        side.update(sample.facts)
        sides.append(side)
    for place, sample in enumerate(samples):  # photos of several facts may have left a fact without a test photo
        untested = any(not test[fact] for fact in sample.facts)
        if untested and sides[place] is train and all(train[fact] > 1 for fact in sample.facts):
            train.subtract(sample.facts)
            test.update(sample.facts)
            sides[place] = test
    return [replace(each, split="test" if side is test else "train") for each, side in zip(samples, sides, strict=True)]


def _is_test(sample: Sample, train: Counter[Fact], test: Counter[Fact], seed: int) -> bool:
    if not all(train[fact] for fact in sample.facts):
        return False
    if not all(test[fact] for fact in sample.facts):
        return True
    if any(train[fact] + test[fact] < _ONE_IN for fact in sample.facts):
        return False
    key = f"{seed}/{sample.id}".encode(errors="surrogateescape")
    return int.from_bytes(hashlib.sha256(key).digest()[:8]) % _ONE_IN == 0
