"""The vendors' emoji pictures that `emoji` and `emoji8` are made of: split by vendor, cleaned of duplicates.

Training and test pictures come from different vendors, so that every test picture is in a drawing style that training
never saw. Two kinds of pictures would distort the results and are dropped: those whose pixels also stand for another
fact or emoji (a *person* drawn like the *man*), and repeats (vendors share some drawings; the first one, on the
training side, stays).

The art belongs to its vendors. It is used from the user's own download of the asset `emoji-pictures` and is not part
of this package; do not redistribute it. The art of the vendors Goog and Twtr is openly licensed.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from factlearn.assets import cache_dir, fetch
from factlearn.data.samples import Sample
from factlearn.errors import DatasetError
from factlearn.facts import Fact
from factlearn.files import fingerprint, write_json
from factlearn.images import load_image

ASSET = "emoji-pictures"
NOTICE = "The emoji pictures belong to their vendors and are shown from this machine's own copy."
TRAIN_VENDORS = ("Appl", "FB", "Goog", "Twtr")
TEST_VENDORS = ("Joy", "Sams", "Wind")


@dataclass(frozen=True)
class Emoji:
    """An emoji to find pictures of.

    Attributes:
        codepoints: such as `U+1F6B4-U+200D-U+2642-U+FE0F`.
        fact: what it shows, if it states one.
    """

    codepoints: str
    metadata: Mapping[str, str]
    fact: Fact | None = None


def emoji_samples(vendors: Sequence[str] | None, emoji: Iterable[Emoji]) -> list[Sample]:
    """The cleaned pictures of these emoji, training side first; fetches the asset if it is not cached.

    Args:
        vendors: whose drawings to use; all seven by default. Those in `TRAIN_VENDORS` are for training, those in
            `TEST_VENDORS` for testing; if all are from one side, the last one becomes the test side.
    """
    train, test = _sides(vendors)
    folder = fetch(ASSET)
    samples = list(_drawings(folder, train, test, list(emoji)))
    if not samples:
        raise DatasetError(f"{folder} holds no pictures of {', '.join(train + test)}; fetch {ASSET} again.")
    return _cleaned(samples, _pixel_digests(samples))


def _sides(vendors: Sequence[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    known = TRAIN_VENDORS + TEST_VENDORS
    chosen = tuple(dict.fromkeys(known if vendors is None else vendors))
    for vendor in chosen:
        if vendor not in known:
            raise DatasetError(f"There is no emoji vendor {vendor!r}; the vendors are {', '.join(known)}.")
    if len(chosen) < 2:
        raise DatasetError("The emoji pictures need at least two vendors, one to learn from and one to test on.")
    train = tuple(vendor for vendor in chosen if vendor in TRAIN_VENDORS)
    test = tuple(vendor for vendor in chosen if vendor in TEST_VENDORS)
    return (train, test) if train and test else (chosen[:-1], chosen[-1:])


def _drawings(folder: Path, train: Sequence[str], test: Sequence[str], emoji: Sequence[Emoji]) -> Iterator[Sample]:
    for vendor in (*train, *test):
        present = {path.stem for path in (folder / vendor).glob("U+*.png")}
        for one in emoji:
            stems = (one.codepoints, one.codepoints.replace("-U+FE0F", ""))
            stem = next((stem for stem in stems if stem in present), None)
            if stem is not None:
                file = f"{vendor}/{stem}.png"
                split = "train" if vendor in train else "test"
                yield Sample(file, folder / file, one.fact, split, {"vendor": vendor, **one.metadata})


def _pixel_digests(samples: Sequence[Sample]) -> dict[str, str]:
    """A digest of each picture's pixels by id; cached, since decoding takes seconds."""
    wanted = sorted(sample.id for sample in samples)
    sizes = [sample.path.stat().st_size for sample in sorted(samples, key=lambda sample: sample.id)]
    kept = cache_dir() / "emoji" / f"pixels-{fingerprint(wanted, sizes)}.json"
    try:
        digests: dict[str, str] = json.loads(kept.read_text(encoding="utf-8"))
        if sorted(digests) == wanted:
            return digests
    except (OSError, ValueError):
        pass
    digests = {}
    for sample in samples:
        image = load_image(sample.path)
        digests[sample.id] = hashlib.sha256(repr(image.size).encode() + image.tobytes()).hexdigest()[:32]
    write_json(kept, digests)
    return digests


def _cleaned(samples: Sequence[Sample], digests: Mapping[str, str]) -> list[Sample]:
    """Drop pixels that stand for two facts (for two emoji, where there are no facts), and repeats."""
    shown: defaultdict[str, set[object]] = defaultdict(set)
    for sample in samples:
        shown[digests[sample.id]].add(sample.fact or sample.metadata["codepoints"])
    kept: dict[str, Sample] = {}
    for sample in samples:
        digest = digests[sample.id]
        if len(shown[digest]) == 1:
            kept.setdefault(digest, sample)
    return list(kept.values())
