"""Correcting misspelt words of a plain sentence: taught words first."""

from collections.abc import Sequence

from factlearn.errors import FactError
from factlearn.facts import Vocabulary
from factlearn.language import LanguageSpace
from factlearn.retrieval.words import (
    PREPOSITIONS,
    SYNONYMS,
    UNHEEDED,
    closest,
    inflections,
    parts_of_speech,
    taught_words,
)

_COMMON = 50_000


class Spelling:
    """Corrects words that are neither taught nor English nor common in the language space."""

    def __init__(self, vocabulary: Vocabulary, language: LanguageSpace) -> None:
        self.taught = taught_words(vocabulary.units)
        self.language = language

    def correct(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """The words, corrected where needed, and what was corrected.

        Raises:
            FactError: if nothing is known about some of the words; it names them all.
        """
        corrected, said, unknown = [], [], []
        for word in words:
            right = word if self._is_known(word) else self._nearest(word)
            if right is None:
                unknown.append(word)
            elif right != word:
                said.append(f"{word}: taken for {right}")
            corrected.append(right or word)
        if unknown:
            listed = ", ".join(map(repr, unknown))
            raise FactError(
                f"Nothing is known about {listed} in {' '.join(words)!r}: no taught unit or word vector is close. "
                "Use other words, or write <subject, predicate, object>."
            )
        return corrected, said

    def _is_known(self, word: str) -> bool:
        if word in self.taught or word in PREPOSITIONS or word in UNHEEDED or word in SYNONYMS:
            return True
        rank = self.language.words.key_to_index.get(word)
        return rank is not None and (rank < _COMMON or bool(parts_of_speech(word)))

    def _nearest(self, word: str) -> str | None:
        forms = {form for each in self.taught for form in inflections(each)}
        for known in (self.taught, forms, SYNONYMS):
            if found := closest(word, known):
                return found[0]
        if word in self.language.words.key_to_index:
            return word
        return next(iter(closest(word, self.language.words.index_to_key[:_COMMON], most=1)), None)
