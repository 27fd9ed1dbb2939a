"""Emoji facts: what emoji of people and things show, as seven vendors draw them, tested on styles never seen.

Each picture's fact comes from the emoji's CLDR short name (`emoji_facts`). The sides are split by vendor,
so that a test picture is in a drawing style that training never saw. Two kinds of pictures would make the
numbers lie, and are left out: a picture whose pixels stand under two facts (a *person* drawn as the *man*),
and a picture that repeats one kept already (vendors share some drawings; the first on the training side
stays).

The art belongs to its vendors. It is used from the user's own download of the asset `emoji-pictures` and is
not part of this package; do not redistribute it. `vendors=["Goog", "Twtr"]` gives a dataset of openly
licensed art alone.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from factlearn.assets import cache_dir, fetch
from factlearn.data.emoji_facts import ALIASES, fact_of_name, is_sport
from factlearn.data.samples import FactDataset, Sample
from factlearn.errors import DatasetError
from factlearn.facts import Fact
from factlearn.files import fingerprint, write_json
from factlearn.images import load_image

ASSET = "emoji-pictures"
TRAIN_VENDORS = ("Appl", "FB", "Goog", "Twtr")
TEST_VENDORS = ("Joy", "Sams", "Wind")
_SKIN_TONE = re.compile(r" (?:medium-light|medium-dark|medium|light|dark) skin tone")


@dataclass(frozen=True)
class _Emoji:
    name: str
    codepoints: str
    fact: Fact


def _emoji() -> list[_Emoji]:
    """Every emoji whose name states one of our facts, in all its skin tones."""
    import emoji

    found = []
    for sequence, data in emoji.EMOJI_DATA.items():
        if data["status"] != emoji.STATUS["fully_qualified"]:
            continue
        name = data["en"].strip(":").replace("_", " ")
        fact = fact_of_name(_SKIN_TONE.sub("", name))
        if fact is not None:
            found.append(_Emoji(name, "-".join(f"U+{ord(letter):04X}" for letter in sequence), fact))
    return sorted(found, key=lambda one: one.codepoints)


def vendor_sides(vendors: Sequence[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The vendors to learn from and to test on; if all are of one side, the last one named is the test."""
    known = TRAIN_VENDORS + TEST_VENDORS
    chosen = tuple(dict.fromkeys(known if vendors is None else vendors))
    for vendor in chosen:
        if vendor not in known:
            raise DatasetError(f"There is no emoji vendor {vendor!r}; the vendors are {', '.join(known)}.")
    if len(chosen) < 2:
        raise DatasetError("The emoji dataset needs at least two vendors, one to learn from and one to test on.")
    train = tuple(vendor for vendor in chosen if vendor in TRAIN_VENDORS)
    test = tuple(vendor for vendor in chosen if vendor in TEST_VENDORS)
    return (train, test) if train and test else (chosen[:-1], chosen[-1:])


def _samples(folder: Path, train: Sequence[str], test: Sequence[str]) -> list[Sample]:
    """Every picture of every fact, training side first."""
    emoji = _emoji()
    samples = []
    for vendor in (*train, *test):
        present = {path.stem for path in (folder / vendor).glob("U+*.png")}
        for one in emoji:
            stem = next((s for s in (one.codepoints, one.codepoints.replace("-U+FE0F", "")) if s in present), None)
            if stem is None:
                continue
            file = f"{vendor}/{stem}.png"
            metadata = {
                "vendor": vendor,
                "name": one.name,
                "codepoints": one.codepoints,
                "topic": "sports" if is_sport(one.fact) else "other",
            }
            split = "train" if vendor in train else "test"
            samples.append(Sample(file, folder / file, one.fact, split, metadata))
    return samples


def pixel_digests(samples: Sequence[Sample]) -> dict[str, str]:
    """A digest of each picture's pixels by id; kept in the cache, since decoding takes seconds."""
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


def cleaned(
    samples: Sequence[Sample], digests: dict[str, str], shown: Callable[[Sample], object] = lambda sample: sample.fact
) -> list[Sample]:
    """Leave out pixels under which two things are `shown`, and every repetition of a picture kept already."""
    things: defaultdict[str, set[object]] = defaultdict(set)
    for sample in samples:
        things[digests[sample.id]].add(shown(sample))
    kept: dict[str, Sample] = {}
    for sample in samples:
        digest = digests[sample.id]
        if len(things[digest]) == 1:
            kept.setdefault(digest, sample)
    return list(kept.values())


def emoji_dataset(
    vendors: Sequence[str] | None = None,
    *,
    offline: bool = False,
    progress: Callable[[str], None] | None = None,
) -> FactDataset:
    """The cleaned emoji facts, split by vendor; fetches the asset `emoji-pictures` if it is not cached.

    Args:
        vendors: whose drawings to use; all seven by default. Those of `TRAIN_VENDORS` are learned from, those
            of `TEST_VENDORS` tested on; if all chosen are of one side, the last one named becomes the test.
        offline: forbid the download.
        progress: called with a line of text at each step.
    """
    train, test = vendor_sides(vendors)
    folder = fetch(ASSET, offline=offline, progress=progress)
    samples = _samples(folder, train, test)
    if not samples:
        raise DatasetError(f"{folder} holds no pictures of {', '.join(train + test)}; fetch {ASSET} again.")
    return FactDataset("emoji", tuple(cleaned(samples, pixel_digests(samples))), dict(ALIASES))


def sports_facts() -> tuple[Fact, ...]:
    """The facts of somebody doing a sport, sorted."""
    return tuple(sorted({one.fact for one in _emoji() if is_sport(one.fact)}))
