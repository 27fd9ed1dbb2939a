"""The source `emoji`: facts that emoji of people and things show, tested on drawing styles never seen.

Each picture's fact comes from the emoji's CLDR short name (`emoji_facts`); which pictures are used is decided in
`emoji_pictures`.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from factlearn.config import shipped
from factlearn.data.emoji_facts import ALIASES, fact_of_name
from factlearn.data.emoji_pictures import NOTICE, Emoji, emoji_samples
from factlearn.data.registry import FactSourceConfig, source
from factlearn.data.samples import FactDataset
from factlearn.facts import Fact, FactQuery, Relevance, read_patterns

_SKIN_TONE = re.compile(r" (?:medium-light|medium-dark|medium|light|dark) skin tone")


class EmojiConfig(FactSourceConfig):
    """Emoji facts."""

    source: Literal["emoji"] = "emoji"
    vendors: tuple[str, ...] | None = None
    """Only these vendors' pictures, such as Goog and Twtr; see docs/data.md."""


@source(
    "emoji",
    learn="facts",
    config=EmojiConfig,
    summary="183 facts drawn as emoji by seven vendors, tested on unseen vendors",
    notice=NOTICE,
)
def open_emoji(config: EmojiConfig, seed: int) -> FactDataset:
    """The emoji facts; fetches the asset `emoji-pictures` if it is not cached."""
    samples = tuple(emoji_samples(config.vendors, _emoji()))
    return FactDataset("emoji", samples, dict(ALIASES)).limited(config.facts, config.images)


def _emoji() -> Iterator[Emoji]:
    """Every emoji whose name states one of our facts, in all skin tones, by codepoints."""
    import emoji

    found = []
    for sequence, data in emoji.EMOJI_DATA.items():
        if data["status"] == emoji.STATUS["fully_qualified"]:
            name = data["en"].strip(":").replace("_", " ")
            if (fact := fact_of_name(_SKIN_TONE.sub("", name))) is not None:
                found.append(("-".join(f"U+{ord(letter):04X}" for letter in sequence), name, fact))
    sports = _sports({fact for _, _, fact in found})
    for codepoints, name, fact in sorted(found):
        about = {"name": name, "codepoints": codepoints, "topic": "sports" if fact in sports else "other"}
        yield Emoji(codepoints, about, fact)


def _sports(facts: Iterable[Fact]) -> set[Fact]:
    queries = [FactQuery.parse(pattern) for pattern in read_patterns(shipped("sports.txt"))]
    return {fact for fact in facts if any(query.matches(fact, Relevance.EXACT) for query in queries)}
