"""English words as plain sentences use them: inflections, function words, everyday synonyms and misspellings."""

from collections.abc import Collection, Iterable
from functools import lru_cache

_UNHEEDED = (
    "a an the this that these those some any all every each my his her its our your their is are was were am be been "
    "being has have had do does did who whom which there two three four five several many few very just only "
    "something anything things"
)
_PREPOSITIONS = (
    "on in at of with from to by near under over into onto up down off behind beside through along across around "
    "while as against inside outside"
)
_OF_PLACES = (
    "in at near under over into onto up down off behind beside through along across around by to inside outside"
)
UNHEEDED = frozenset(_UNHEEDED.split())
"""Articles, auxiliaries, possessives, counts, and words for anything at all: they never change which fact is meant."""
PREPOSITIONS = frozenset(_PREPOSITIONS.split())
"""Heeded only as part of a taught unit such as `sitting on`."""
OF_PLACES = frozenset(_OF_PLACES.split())
"""What follows these says where, rather than what: in the park."""

_PEOPLE = (
    "people someone somebody anyone anybody everyone human man woman child kid adult baby teenager couple crowd group "
    "athlete friend family toddler infant mother father parent brother sister student worker he she they him them"
)
_GROUPS = (
    "bike bicycle cycle", "motorbike motorcycle", "sofa couch", "computer laptop notebook", "football soccer",
    "phone telephone cellphone smartphone mobile", "television tv", "photo photograph picture selfie",
    "gun pistol rifle",
    "airplane plane aeroplane aircraft", "boat ship", "car automobile", "dog puppy", "cat kitten",
    "horse pony stallion",
    "cup mug", "bag handbag purse", "donut doughnut", "umbrella parasol",
    "running jogging sprinting", "jumping leaping hopping", "walking strolling", "sleeping napping snoozing",
    "holding grasping gripping clutching", "throwing tossing hurling", "laughing giggling", "eating munching",
    "fighting brawling", "talking chatting speaking", "carrying hauling lugging", "hugging embracing cuddling",
)  # fmt: skip


def _synonyms() -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for group in _GROUPS:
        for word in group.split():
            table[word] = tuple(other for other in group.split() if other != word)
    table |= dict.fromkeys(_PEOPLE.split(), ("person",))
    table |= dict.fromkeys(("boy", "guy", "gentleman"), ("man", "person"))
    table |= dict.fromkeys(("girl", "lady"), ("woman", "person"))
    return table


SYNONYMS = _synonyms()
"""What a word may stand for, best first. Word vectors place a boy nearer to `dog` than to `person`, and jogging nearer
to `hugging` than to `running`: for the commonest words of photo collections this table comes first."""


@lru_cache(maxsize=8192)
def parts_of_speech(word: str) -> dict[str, frozenset[str]]:
    """The lemmas of an English word by part of speech (NOUN, VERB, ADJ, ADV, ...); empty if it is no English word."""
    from lemminflect import getAllLemmas

    return {tag: frozenset(lemmas) for tag, lemmas in getAllLemmas(word).items()}


def lemmas(word: str, tag: str) -> frozenset[str]:
    """The word itself and its lemmas as one part of speech."""
    return parts_of_speech(word).get(tag, frozenset()) | {word}


@lru_cache(maxsize=8192)
def inflections(word: str) -> frozenset[str]:
    """All forms of the word's lemmas: ride, rides, rode, riding, ridden."""
    from lemminflect import getAllInflections

    every = {lemma for found in parts_of_speech(word).values() for lemma in found}
    forms = {form for lemma in every for found in getAllInflections(lemma).values() for form in found}
    return frozenset(form.lower() for form in forms | {word})


def is_verb_form(word: str) -> bool:
    """Whether a word can only be a verb in use: riding, rode, but not kids or jump."""
    known = parts_of_speech(word)
    return "VERB" in known and ("NOUN" not in known or (word.endswith("ing") and word not in known["VERB"]))


def is_modifier(word: str) -> bool:
    """Whether a word is an adjective or adverb rather than a verb in use: young, brown, quickly."""
    known = parts_of_speech(word)
    return ("ADJ" in known or "ADV" in known) and not is_verb_form(word)


def synonyms(word: str) -> list[str]:
    """What a word in any inflection may stand for, best first."""
    forms = [word, *sorted(inflections(word) - {word})]
    return list(dict.fromkeys(other for form in forms for other in SYNONYMS.get(form, ())))


def agent_stems(word: str) -> list[str]:
    """What one who is a ...er does: surfer -> surf, rider -> ride, swimmer -> swim, golfer -> golf."""
    singular = min(parts_of_speech(word).get("NOUN", {word.removesuffix("s")}), key=len)
    for suffix in ("ist", "er", "or"):
        stem = singular.removesuffix(suffix)
        if stem != singular and len(stem) >= 3:
            undoubled = [stem[:-1]] if stem[-1] == stem[-2] else []
            return [stem, stem + "e", *undoubled]
    return []


def edits(first: str, second: str, most: int) -> int:
    """The number of letters inserted, deleted, replaced or swapped with a neighbour; `most` + 1 if there are more."""
    if abs(len(first) - len(second)) > most:
        return most + 1
    before: list[int] = []
    last = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        row = [i]
        for j, b in enumerate(second, 1):
            cost = min(last[j] + 1, row[-1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == second[j - 2] and first[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
        before, last = last, row
    return last[-1]


def closest(word: str, known: Iterable[str], count: int = 1, *, most: int = 2) -> list[str]:
    """The known words that a misspelt one may be: one edit away, two for six letters and more, nearest first."""
    most = min(most, 0 if len(word) < 3 else 1 if len(word) < 6 else 2)
    found = sorted((edits(word, each, most), each[:1] != word[:1], each) for each in set(known))
    return [each for distance, _, each in found if distance <= most][:count]


def taught_words(units: Collection[str]) -> frozenset[str]:
    """The words that units consist of."""
    return frozenset(word for unit in units for word in unit.split())
