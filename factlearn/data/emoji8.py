"""The source `emoji8`: eight classification tasks from Unicode's emoji categories, tested on styles never seen.

A class is an emoji; its images are the vendors' drawings of it, one each, in the default skin tone. Which pictures are
used is decided in `emoji_pictures`; an emoji that lacks a drawing on either side is not a class.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from factlearn.assets import fetch
from factlearn.data.classes import ClassSequence, ClassTask, choose_tasks, task_of
from factlearn.data.emoji_pictures import ASSET, NOTICE, Emoji, emoji_samples
from factlearn.data.registry import ClassSourceConfig, source
from factlearn.data.samples import SPLITS

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
"""The tasks in their order, and Unicode's name for each."""


class Emoji8Config(ClassSourceConfig):
    """Emoji by category."""

    source: Literal["emoji8"] = "emoji8"
    classes: int | None = Field(None, ge=2)
    """At most this many emoji per task, evenly spread over the alphabet; all if null."""
    vendors: tuple[str, ...] | None = None
    """Only these vendors' pictures, such as Goog and Twtr; see docs/data.md."""


@source(
    "emoji8",
    learn="classes",
    config=Emoji8Config,
    summary="eight tasks from Unicode's emoji categories, tested on unseen vendors",
    notice=NOTICE,
)
def open_emoji8(config: Emoji8Config, seed: int) -> ClassSequence:
    """The emoji tasks; fetches the assets `emoji-pictures` and `emoji-categories` if they are not cached."""
    names = choose_tasks(list(CATEGORIES), config.tasks, "emoji8")
    sides: dict[tuple[str, str], list[tuple[Path, str]]] = {}
    for sample in emoji_samples(config.vendors, _emoji()):
        side = sides.setdefault((sample.metadata["task"], sample.split), [])
        side.append((sample.path, sample.metadata["class"]))
    folder = fetch(ASSET)

    def task(name: str) -> ClassTask:
        train, test = (sides.get((name, side), []) for side in SPLITS)
        return task_of(name, train, test, folder, config.classes)

    return ClassSequence("emoji8", tuple(map(task, names)))


def _emoji() -> Iterator[Emoji]:
    """Every emoji of the eight categories, by codepoints."""
    import emoji

    tasks = {category: name for name, category in CATEGORIES.items()}
    table: dict[str, list[str]] = json.loads(fetch("emoji-categories").read_text(encoding="utf-8"))
    for unified, (category, _) in sorted(table.items()):
        points = unified.split("-")
        known = emoji.EMOJI_DATA.get("".join(chr(int(point, 16)) for point in points))
        if known is not None and category in tasks:
            codepoints = "-".join(f"U+{point}" for point in points)
            name = known["en"].strip(":").replace("_", " ")
            yield Emoji(codepoints, {"codepoints": codepoints, "class": name, "task": tasks[category]})
