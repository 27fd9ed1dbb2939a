"""Reading one clause of a plain sentence, such as "a man riding a horse", as a fact query.

Every word becomes part of a unit or is left out, units in the order subject, predicate, object; of all ways to do so
the one that costs least is the reading. Words are first matched with what was taught. Only if that leaves a word
unexplained, misspellings are corrected and the word vectors are asked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from factlearn.errors import FactError
from factlearn.facts import UNIT_NAMES, Fact, FactQuery, Vocabulary
from factlearn.language import LanguageSpace
from factlearn.retrieval.expansion import Expander
from factlearn.retrieval.matching import Match, Matcher
from factlearn.retrieval.spelling import Spelling
from factlearn.retrieval.words import OF_PLACES, PREPOSITIONS, UNHEEDED, is_modifier, is_verb_form, parts_of_speech

_LONGEST_UNIT = 4
_KEPT = 12
_OPEN, _NO_SUCH_FACT, _MODIFIER, _WHERE, _LEFT_OUT = 0.1, 0.15, 0.5, 0.7, 2.0
_ALMOST = 0.25


@dataclass(frozen=True)
class Candidate:
    """One way to read a clause: its units, what it costs and what to tell the user."""

    units: tuple[str | None, ...]
    cost: float
    notes: tuple[str, ...] = ()

    @property
    def query(self) -> FactQuery:
        """The units as a query."""
        return FactQuery(self.units)


class ClauseReader:
    """Reads clauses against a vocabulary of taught units and a language space."""

    def __init__(self, vocabulary: Vocabulary, language: LanguageSpace) -> None:
        self.vocabulary = vocabulary
        self.matcher = Matcher(vocabulary, language)
        self.spelling = Spelling(vocabulary, language)
        self.expander = Expander(self.matcher)

    def candidates(self, words: Sequence[str], position: int | None = None) -> list[Candidate]:
        """The readings of a clause, best first, with those that are almost as good; `position` is preferred if given.

        Raises:
            FactError: if it says nothing, or has words that nothing is known about, naming them all.
        """
        heeded = [word for word in words if word not in UNHEEDED or word in self.vocabulary.units]
        if len(heeded) == 2 and self._is_reversed(*heeded):
            heeded.reverse()
        if not heeded:
            raise FactError(f"{' '.join(words)!r} names nothing to look for; write for example: person riding bike.")
        expanded, said = self.expander.expand(heeded)
        found = self._search(expanded, guess=False)
        if not found:
            corrected, respelled = self.spelling.correct(heeded)
            expanded, said = self.expander.expand(corrected)
            said = [*respelled, *said]
            found = self._search(expanded, guess=False)
        if not found:
            expanded, more = self.expander.expand(expanded, guess=True)
            said += more
            found = self._search(expanded, guess=True)
        if not found:
            raise FactError(f"Cannot read {' '.join(words)!r} as a fact; write <subject, predicate, object> instead.")
        return _best(found, said, position)

    def _search(self, words: Sequence[str], *, guess: bool) -> list[Candidate]:
        """The cheapest readings of the words; dynamic programming over the words and the positions filled so far."""
        beyond = len(UNIT_NAMES)
        # table[place][position]: the cheapest ways to have read the words before `place` into units before `position`
        table = [[list[Candidate]() for _ in range(beyond + 1)] for _ in range(len(words) + 1)]
        table[0][0] = [Candidate((), 0.0)]
        for place in range(len(words)):
            for filled in range(beyond + 1):
                begun = sorted(table[place][filled], key=_rank)[:_KEPT]
                if not begun:
                    continue
                for each in begun:
                    if (cost := self._leaving_out(words, place, each, guess=guess)) is not None:
                        note = (f"{words[place]}: left out",) if cost else ()
                        table[place + 1][filled].append(_extended(each, (), cost, note))
                for position in range(filled, beyond):
                    opened = (None,) * (position - filled)
                    for end in range(place + 1, min(place + _LONGEST_UNIT, len(words)) + 1):
                        unit = self._match(words[place:end], position, guess=guess)
                        if unit is not None:
                            cost, notes = unit.cost + _OPEN * len(opened), (unit.note,) if unit.note else ()
                            extended = [_extended(each, (*opened, unit.unit), cost, notes) for each in begun]
                            table[end][position + 1] += extended
        whole = [each for row in table[-1][1:] for each in row]
        return [self._checked(each) for each in whole]

    def _match(self, words: Sequence[str], position: int, *, guess: bool) -> Match | None:
        found = self.matcher.taught(words, position)
        if found or not guess:
            return found
        if any(word in PREPOSITIONS for word in words):
            return None
        if len(words) > 1 and any(is_verb_form(word) or self._is_taught(word) for word in words):
            return None
        return self.matcher.near(words, position)

    def _leaving_out(self, words: Sequence[str], place: int, begun: Candidate, *, guess: bool) -> float | None:
        word = words[place]
        if word in PREPOSITIONS:
            return 0.0
        following = words[place + 1] if place + 1 < len(words) else ""
        is_noun = "NOUN" in parts_of_speech(word) and (not following or following in PREPOSITIONS)
        if is_modifier(word) and not is_noun and not self._is_taught(word):
            return _MODIFIER
        if not guess:
            return None
        is_complete = len(begun.units) == len(UNIT_NAMES)
        says_where = _says_where(words[:place], begun.units) and (is_complete or not self._is_taught(word))
        return _WHERE if says_where else _LEFT_OUT

    def _is_reversed(self, first: str, second: str) -> bool:
        """Whether two words are in the order of a noun phrase: a sleeping cat, horse riding."""
        if is_verb_form(first):
            return self.matcher.taught([second], 0) is not None and self.matcher.taught([second], 2) is None
        done, does = self.matcher.taught([first], 2), self.matcher.taught([second], 1)
        if done is None or does is None or not is_verb_form(second):
            return False
        facts = self.vocabulary.facts
        return shows(facts, FactQuery((None, does.unit, done.unit))) and not shows(
            facts, FactQuery((done.unit, does.unit))
        )

    def _is_taught(self, word: str) -> bool:
        return any(self.matcher.taught([word], position) for position in range(len(UNIT_NAMES)))

    def _checked(self, candidate: Candidate) -> Candidate:
        """A reading that no taught fact agrees with costs a little more."""
        if shows(self.vocabulary.facts, candidate.query):
            return candidate
        return Candidate(candidate.units, candidate.cost + _NO_SUCH_FACT, candidate.notes)


def _extended(begun: Candidate, units: tuple[str | None, ...], cost: float, notes: Iterable[str]) -> Candidate:
    return Candidate((*begun.units, *units), begun.cost + cost, (*begun.notes, *notes))


def _says_where(before: Sequence[str], units: Sequence[str | None]) -> bool:
    """Whether what follows says where rather than what: walking on the beach, but neither sitting on nor man on ..."""
    nearest = next((word for word in reversed(before) if word in PREPOSITIONS or not is_modifier(word)), "")
    if not units or (units[-1] or "").split()[-1:] == [nearest]:
        return False
    return nearest in (PREPOSITIONS if len(units) > 1 else OF_PLACES)


def _rank(candidate: Candidate) -> tuple[float, int, tuple[str, ...]]:
    return candidate.cost, len(candidate.units), tuple(unit or "" for unit in candidate.units)


def _best(found: Sequence[Candidate], said: Sequence[str], position: int | None) -> list[Candidate]:
    ordered = sorted(found, key=lambda each: (position is not None and len(each.units) != position + 1, *_rank(each)))
    limit = ordered[0].cost + _ALMOST
    distinct: dict[tuple[str | None, ...], Candidate] = {}
    for each in ordered:
        if each.cost <= limit:
            distinct.setdefault(each.units, Candidate(each.units, each.cost, (*said, *each.notes)))
    return list(distinct.values())


def shows(facts: Iterable[Fact], query: FactQuery) -> bool:
    """Whether a taught fact has the query's units."""
    return any(query.matches(fact) for fact in facts)
