"""Words that say several units at once: a surfer is a person surfing, biking is riding a bike."""

from collections.abc import Sequence

from factlearn.retrieval.matching import Matcher
from factlearn.retrieval.words import (
    PREPOSITIONS,
    agent_stems,
    inflections,
    is_modifier,
    is_verb_form,
    lemmas,
    parts_of_speech,
)

PERSON = "person"
_SOMEWHAT_NEAR = 0.5


class Expander:
    """Replaces such words by the words of the units they stand for, if those were taught."""

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher

    def expand(self, words: Sequence[str], *, guess: bool = False) -> tuple[list[str], list[str]]:
        """The words with such words replaced, and what to tell the user; `guess` also asks the word vectors.

        Before a verb of its own, a surfer is just a person.
        """
        result: list[str] = []
        said: list[str] = []
        for place, word in enumerate(words):
            replaced = None if self._is_taught(word) else self._stands_for(word, guess=guess)
            if replaced is None:
                result.append(word)
                continue
            alone = place + 1 == len(words) or words[place + 1] in PREPOSITIONS
            if replaced[0] == PERSON and not alone:
                replaced = [PERSON]
            said.append(f"{word}: nearest taught unit is {replaced[-1]}")
            if len(replaced) == 2 and result and self._is_done_to(result[-1], replaced[1]):
                replaced.append(result.pop())  # a tennis player: person playing tennis
            result += " ".join(replaced).split()
        return result, said

    def _is_taught(self, word: str) -> bool:
        return any(self.matcher.taught([word], position) for position in range(3))

    def _is_done_to(self, thing: str, predicate: str) -> bool:
        """Whether a noun before a ...er is an object, as in tennis player, rather than a young or woman surfer."""
        if self.matcher.taught([thing], 2):
            return True
        match = self.matcher.taught([thing], 0)
        if "NOUN" not in parts_of_speech(thing) or is_modifier(thing) or (match and match.unit == PERSON):
            return False
        return any(fact.predicate == predicate and fact.object for fact in self.matcher.vocabulary.facts)

    def _stands_for(self, word: str, *, guess: bool) -> list[str] | None:
        if is_verb_form(word):
            return self._object_as_verb(word)
        if PERSON not in self.matcher.vocabulary.subjects:
            return None
        stems = agent_stems(word)
        for stem in stems:
            if match := self.matcher.taught([stem], 1) if parts_of_speech(stem) else None:
                return [PERSON, match.unit]
            if match := self.matcher.taught([stem], 2) or self.matcher.taught([stem], 0):
                return [PERSON, *self._with_predicate(match.unit)]
        if guess and stems and word.endswith(("ist", "ists")) and self.matcher.has_vector([word]):
            return self._nearest(word)
        return None

    def _object_as_verb(self, word: str) -> list[str] | None:
        for lemma in sorted(lemmas(word, "VERB") - {word}):
            match = self.matcher.taught([lemma], 2)
            if match and word in inflections(lemma):
                units = self._with_predicate(match.unit)
                return units if len(units) > 1 else None
        return None

    def _nearest(self, word: str) -> list[str] | None:
        found = [(*self.matcher.nearest(word, position), position) for position in range(3)]
        unit, cosine, position = max(found, key=lambda each: each[1])
        if cosine < _SOMEWHAT_NEAR or unit == PERSON:
            return None
        return [PERSON, *([unit] if position == 1 else self._with_predicate(unit))]

    def _with_predicate(self, thing: str) -> list[str]:
        """An object after its predicate, if only one was taught with it."""
        predicates = {fact.predicate for fact in self.matcher.vocabulary.facts if fact.object == thing}
        return [*(predicates if len(predicates) == 1 else ()), thing]
