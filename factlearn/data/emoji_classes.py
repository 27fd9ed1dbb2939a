"""emoji-8: eight classification tasks from Unicode's emoji categories, tested on drawing styles never seen.

A class is an emoji, its images are the vendors' drawings of it, one each, in the default skin tone. The sides are
split by vendor as in `emoji.py`, and cleaned as there: pixels that stand under two emoji are left out, a drawing that
vendors share is kept once. An emoji without a drawing on either side is no class.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from factlearn.assets import fetch
from factlearn.data.classes import ClassSequence, ClassTask, choose_tasks, task_of
from factlearn.data.emoji import ASSET, cleaned, pixel_digests, vendor_sides
from factlearn.data.samples import Sample
from factlearn.errors import DatasetError

CATEGORIES = {
    "faces": "Smileys & Emotion",
    "people": "People & Body",
    "animals": "Animals & Nature",
    "food": "Food & Drink",
    "travel": "Travel & Places",
    "activities": "Activities",
    "objects": "Objects",
    "flags": "Flags",
}
"""The tasks in their order, and Unicode's name of each."""


def emoji_classes(
    tasks: Sequence[str] | None = None,
    *,
    vendors: Sequence[str] | None = None,
    classes: int | None = None,
) -> ClassSequence:
    """The emoji tasks; fetches the assets `emoji-pictures` and `emoji-categories` if they are not cached.

    Args:
        tasks: which categories, in the order to learn them; all eight by default.
        vendors: whose drawings to use, see `emoji_dataset`.
        classes: at most so many emoji a task, evenly spread over the alphabet; all by default.
    """
    names = choose_tasks(list(CATEGORIES), tasks, "emoji8")
    train, test = vendor_sides(vendors)
    folder = fetch(ASSET)
    table = json.loads(fetch("emoji-categories").read_text(encoding="utf-8"))
    samples = list(_samples(folder, table, train, test))
    if not samples:
        raise DatasetError(f"{folder} holds no pictures of {', '.join(train + test)}; fetch {ASSET} again.")
    kept = cleaned(samples, pixel_digests(samples), lambda sample: sample.metadata["codepoints"])
    return ClassSequence("emoji8", tuple(_task(name, kept, folder, classes) for name in names))


def _samples(folder: Path, table: dict[str, list[str]], train: Sequence[str], test: Sequence[str]) -> Iterator[Sample]:
    """Every drawing of every emoji of the eight categories, training side first."""
    import emoji

    task_names = {category: name for name, category in CATEGORIES.items()}
    for vendor in (*train, *test):
        present = {path.stem for path in (folder / vendor).glob("U+*.png")}
        for unified, (category, _) in sorted(table.items()):
            codepoints = "-".join(f"U+{point}" for point in unified.split("-"))
            stem = next((s for s in (codepoints, codepoints.replace("-U+FE0F", "")) if s in present), None)
            known = emoji.EMOJI_DATA.get("".join(chr(int(point, 16)) for point in unified.split("-")))
            if stem is None or known is None or category not in task_names:
                continue
            about = {
                "codepoints": codepoints,
                "class": known["en"].strip(":").replace("_", " "),
                "task": task_names[category],
            }
            file = f"{vendor}/{stem}.png"
            yield Sample(file, folder / file, None, "train" if vendor in train else "test", about)


def _task(name: str, samples: Sequence[Sample], folder: Path, limit: int | None) -> ClassTask:
    sides = [
        [(s.path, s.metadata["class"]) for s in samples if s.metadata["task"] == name and s.split == side]
        for side in ("train", "test")
    ]
    return task_of(name, sides[0], sides[1], folder, limit)
