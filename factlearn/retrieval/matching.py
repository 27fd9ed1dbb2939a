"""Matching words of a plain sentence to taught units, with the cost of each match.

The cost of a match: 0 for the unit as it was taught, then inflections, everyday synonyms, near words of the language
space, and last a word that was never taught, which keeps its own vector: the index can be searched with any vector of
the space. A near word is replaced by the taught unit only above `NEAR`, where both ask almost the same question; the
word vectors of a violin and a flute are nearer than those of a sofa and a couch, so that anything below is left alone,
and so are verbs: crying is near laughing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from factlearn.errors import LanguageError
from factlearn.facts import UNIT_NAMES, Vocabulary
from factlearn.language import LanguageSpace
from factlearn.retrieval.words import PREPOSITIONS, is_verb_form, lemmas, parts_of_speech, synonyms

NEAR = 0.8
"""The cosine from which a word is replaced by the nearest taught unit of its position."""
INFLECTED, SYNONYM, ELSEWHERE, UNTAUGHT = 0.02, 0.1, 0.5, 1.0
_TAGS = ("NOUN", "VERB", "NOUN")


@dataclass(frozen=True)
class Match:
    """A unit that words may name: how far-fetched it is, and what to tell the user."""

    unit: str
    cost: float
    note: str = ""


class Matcher:
    """Matches words with the taught units of each position."""

    def __init__(self, vocabulary: Vocabulary, language: LanguageSpace) -> None:
        self.vocabulary = vocabulary
        self.language = language
        self._by_lemma = [
            [(unit, [lemmas(word, tag) for word in unit.split()]) for unit in sorted(units)]
            for units, tag in zip(vocabulary.positions, _TAGS, strict=True)
        ]

    def taught(self, words: Sequence[str], position: int) -> Match | None:
        """The taught unit that the words name, inflected or by a synonym; needs no word vectors."""
        known, text = self.vocabulary.positions[position], " ".join(words)
        if text in known:
            return Match(text, 0.0)
        if unit := self._inflected(words, position):
            return Match(unit, INFLECTED)
        if position == 1 and (unit := self._without_preposition(words)):
            return Match(unit, SYNONYM)
        if len(words) == 1 and (position == 1 or not is_verb_form(text)):
            for other in synonyms(text):
                if unit := other if other in known else self._inflected([other], position):
                    return Match(unit, SYNONYM, f"{text}: nearest taught unit is {unit}")
        return None

    def _inflected(self, words: Sequence[str], position: int) -> str | None:
        forms = [lemmas(word, _TAGS[position]) for word in words]
        for unit, parts in self._by_lemma[position]:
            if len(parts) == len(forms) and all(a & b for a, b in zip(forms, parts, strict=True)):
                return unit
        return None

    def _without_preposition(self, words: Sequence[str]) -> str | None:
        """The only taught predicate that goes on with a preposition: texting for `texting on`."""
        found = {self._inflected([*words, preposition], 1) for preposition in PREPOSITIONS} - {None}
        return found.pop() if len(found) == 1 else None

    def near(self, words: Sequence[str], position: int) -> Match | None:
        """The nearest taught unit of a word that was never taught, or the word itself as a unit of its own."""
        text = " ".join(words)
        if not self.has_vector(words) or (position == 1 and len(words) > 1):
            return None
        fits = len(words) > 1 or (position == 1) == is_verb_form(text) or not parts_of_speech(text)
        awkward = (0.0 if fits else 0.6) + 0.4 * (len(words) - 1)
        if text in self.vocabulary.units:
            note = f"{text}: never taught as {_article(UNIT_NAMES[position])}"
            return Match(text, ELSEWHERE + awkward, note)
        nearest, cosine = self.nearest(text, position)
        if cosine >= NEAR and position != 1 and text not in nearest.split() and len(words) == 1:
            return Match(nearest, SYNONYM + (1 - cosine) + awkward, f"{text}: nearest taught unit is {nearest}")
        near = f"; nearest taught unit is {nearest}" if nearest else ""
        return Match(text, UNTAUGHT + awkward, f"{text}: never taught, searched by its word vector{near}")

    def has_vector(self, words: Sequence[str]) -> bool:
        """Whether the words can be searched for."""
        if " ".join(words) in self.vocabulary.units:
            return True
        return all(word in self.language.words.key_to_index for word in words)

    def nearest(self, text: str, position: int) -> tuple[str, float]:
        """The taught unit of a position with the highest cosine to a text, and the cosine."""
        units = sorted(self.vocabulary.positions[position])
        try:
            target = self.language.unit(text)
        except LanguageError:
            return "", -1.0
        if not units:
            return "", -1.0
        matrix = np.stack([self.language.unit(unit) for unit in units])
        cosines = matrix @ target / (np.linalg.norm(matrix, axis=1) * np.linalg.norm(target))
        best = int(cosines.argmax())
        return units[best], float(cosines[best])


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
