"""Reading the name of a folder of photos as the fact they show: `person_riding_horse`, `mountain bike`, `cat on sofa`.

The first verb after the subject is the predicate, together with a preposition that follows it (`sitting on`); without a
verb, a preposition is. What comes before is the subject, what comes after the object; both may have several words.
Where a name has two kinds of separators, one of them stands between the units: `person_riding_mountain-bike`.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from factlearn.errors import FactError
from factlearn.facts import UNIT_NAMES, Fact, is_structured

_SEPARATORS = "_- "
_CUT = re.compile(r"[_\-.\s]+")
_ARTICLES = frozenset({"a", "an", "the"})
_PEOPLE_WORDS = "person people man men woman women child children boy boys girl girls kid kids baby"
_PEOPLE = frozenset(_PEOPLE_WORDS.split())
_NO_SUBJECTS = frozenset({"images", "photos", "pictures", "img", "imgs", "dsc", "dscn", "dcim"})
_FREQUENT = 30_000


@dataclass(frozen=True)
class Words:
    """What is known about English words.

    Attributes:
        is_verb: whether a word is a verb in use, such as riding.
        prepositions: on, in, with, ...
        rank: the place of a word among the word vectors, the most frequent first; None if it has none.
    """

    is_verb: Callable[[str], bool]
    prepositions: Collection[str]
    rank: Callable[[str], int | None]

    def is_frequent_noun(self, word: str) -> bool:
        """Whether a form in -ing is a thing in its own right: there are buildings and paintings, but no ridings."""
        rank = self.rank(word + "s")
        return rank is not None and rank < _FREQUENT


def read_name(name: str, words: Words) -> Fact:
    """The fact that a folder's name states.

    Raises:
        FactError: if it states none, saying why in half a sentence.
    """
    if is_structured(name):
        return _with_vectors(Fact.parse(name), words)
    for separator in _SEPARATORS:
        parts = [_tokens(part) for part in name.split(separator)]
        is_cut = len({mark for mark in _SEPARATORS if mark in name.strip()}) > 1 and 1 < len(parts) <= len(UNIT_NAMES)
        if is_cut and all(parts) and _is_predicate(parts[1], words):
            return _with_vectors(Fact(*map(" ".join, parts)), words)
    tokens = _tokens(name)
    if _NO_SUBJECTS.issuperset(tokens):
        raise FactError("it does not say what the photos show")
    return _with_vectors(_from_words(tokens, words), words)


def _tokens(text: str) -> list[str]:
    """The words of a name; articles and bare numbers, such as those of copies, are left out."""
    found = [word for word in _CUT.split(text.lower()) if word]
    return [word for word in found if word not in _ARTICLES and not word.isdecimal()]


def _is_predicate(tokens: Sequence[str], words: Words) -> bool:
    return words.is_verb(tokens[0]) or tokens[0] in words.prepositions


def _from_words(tokens: Sequence[str], words: Words) -> Fact:
    places = range(1, len(tokens))
    start = next((place for place in places if _is_verb_here(tokens, place, words)), None)
    if start is None:
        start = next((place for place in places[:-1] if tokens[place] in words.prepositions), len(tokens))
    end = start + 1
    while end < len(tokens) and tokens[end] in words.prepositions:
        end += 1
    return Fact(" ".join(tokens[:start]), " ".join(tokens[start:end]), " ".join(tokens[end:]))


def _is_verb_here(tokens: Sequence[str], place: int, words: Words) -> bool:
    """Whether a word is what the subject does; in `office building` it is not."""
    if not words.is_verb(tokens[place]):
        return False
    ends = place == len(tokens) - 1
    return not ends or tokens[place - 1] in _PEOPLE or not words.is_frequent_noun(tokens[place])


def _with_vectors(fact: Fact, words: Words) -> Fact:
    unknown = [word for unit in fact.units for word in unit.split() if words.rank(word) is None]
    if unknown:
        listed = ", ".join(map(repr, dict.fromkeys(unknown)))
        raise FactError(f"{listed} {'has' if len(set(unknown)) == 1 else 'have'} no word vector")
    return fact
