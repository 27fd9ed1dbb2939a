"""Plain sentences as queries: "a man riding a horse but not a bike", "cat or dog", "person ridng hrose"."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from factlearn.errors import FactError
from factlearn.facts import FactQuery, Vocabulary, is_structured, normalise_unit
from factlearn.language import LanguageSpace
from factlearn.retrieval.clauses import Candidate, ClauseReader, shows
from factlearn.retrieval.words import UNHEEDED

_REQUEST = re.compile(
    r"^(please\s+)?((show|find|get|give|search|look)(\s+(me|for))*\s+)?"
    r"((all|some|the|a|any)\s+)*((photo|picture|image|pic)(graph)?s?\s+(of|with|showing|where|in which)\s+)?"
)
_WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_AND, _OR, _NOT = frozenset({"and", "plus"}), frozenset({"or", "nor"}), frozenset({"not", "without", "except", "no"})
_TURN = frozenset({"but", "though"})
_TELLING = UNHEEDED | _AND | _OR | _NOT | _TURN


@dataclass(frozen=True)
class Reading:
    """How a text was read.

    Attributes:
        text: what the user wrote.
        query: the fact to show.
        also: facts the same image must show as well ("and").
        without: facts it must not show ("not").
        any_of: facts of which one is enough instead of `query` ("or").
        notes: what to tell the user: words never taught, corrected or left out.
        alternatives: other readings of `query` that are almost as good.
    """

    text: str
    query: FactQuery
    also: tuple[FactQuery, ...] = ()
    without: tuple[FactQuery, ...] = ()
    any_of: tuple[FactQuery, ...] = ()
    notes: tuple[str, ...] = ()
    alternatives: tuple[FactQuery, ...] = ()

    @property
    def is_single(self) -> bool:
        """Whether the text asks for one fact and nothing else."""
        return not (self.also or self.without or self.any_of)

    def __str__(self) -> str:
        either = " or ".join(map(str, (self.query, *self.any_of)))
        both = "".join(f" and {each}" for each in self.also)
        return either + both + (f" but not {' or '.join(map(str, self.without))}" if self.without else "")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        facts = {name: [str(each) for each in getattr(self, name)] for name in ("also", "without", "any_of")}
        alternatives = [str(each) for each in self.alternatives]
        notes = list(self.notes)
        return {"text": self.text, "query": str(self.query), **facts, "notes": notes, "alternatives": alternatives}


@dataclass(frozen=True)
class _Clause:
    words: tuple[str, ...]
    role: str  # first, and, or, not


def single(reading: Reading) -> FactQuery:
    """The one fact that a reading asks for.

    Raises:
        FactError: if the text also says and, or, not.
    """
    if not reading.is_single:
        raise FactError(f"{reading.text!r} asks for more than one fact here ({reading}); ask for one at a time.")
    return reading.query


def read(text: str, vocabulary: Vocabulary, language: LanguageSpace) -> Reading:
    """Read a query: `<subject, predicate, object>` to the letter, plain words as a person would.

    Example:
        >>> read("a man riding a horse", vocabulary, language).query  # doctest: +SKIP
        FactQuery(units=('person', 'riding', 'horse'))

    Raises:
        FactError: if the text is empty or malformed, or nothing is known about some of its words.
        LanguageError: if word vectors are needed and cannot be loaded.
    """
    if not is_sentence(text):
        return Reading(text, FactQuery.parse(text))
    whole = normalise_unit(text.replace(",", " and ")) or ""
    try:
        return Reading(text, FactQuery.parse(whole, vocabulary))
    except FactError:
        return _Sentence(text, ClauseReader(vocabulary, language)).read(_clauses(text, whole))


def is_sentence(text: str) -> bool:
    """Whether a text is in plain words; one with commas is, if it has articles and the like."""
    if not is_structured(text):
        return bool(text.strip())
    return not any(mark in text for mark in "<>|*") and not _TELLING.isdisjoint(_WORD.findall(text.lower()))


def _clauses(text: str, whole: str) -> list[_Clause]:
    """Cut a sentence at and, or, not; after "not", an "or" goes on with what is unwanted."""
    words = _WORD.findall(_REQUEST.sub("", whole)) or _WORD.findall(whole)
    if words[:1] == ["who"]:
        words[0] = "someone"  # a question; in "a man who rides" it is heeded no more than an article
    clauses: list[_Clause] = []
    role, begun = "first", list[str]()
    for word in [*words, ""]:
        if word and word not in _AND | _OR | _NOT | _TURN:
            begun.append(word)
            continue
        if begun:
            clauses.append(_Clause(tuple(begun), role))
            begun = []
        if word in _NOT:
            role = "not"
        elif clauses and not (word in _OR and role == "not"):
            role = "or" if word in _OR else "and"
    if not any(clause.role != "not" for clause in clauses):
        raise FactError(f"{text!r} names nothing to look for; say what the images should show.")
    if {"and", "or"} <= {clause.role for clause in clauses}:
        raise FactError(f"{text!r} mixes and with or; ask for each alternative by itself.")
    return clauses


class _Sentence:
    def __init__(self, text: str, reader: ClauseReader) -> None:
        self.text = text
        self.reader = reader
        self.facts = reader.vocabulary.facts

    def read(self, clauses: Sequence[_Clause]) -> Reading:
        """Read each clause, with what it shares with its neighbours: "riding a horse or a bike"."""
        best: list[Candidate] = []
        alternatives: list[FactQuery] = []
        wanted: Candidate | None = None
        for clause in clauses:
            found = self.reader.candidates(clause.words)
            chosen = found[0]
            if wanted is not None:
                chosen = self._after(wanted, chosen, clause)
            elif wanted is None:
                alternatives = [each.query for each in found[1:]]
            if clause.role != "not":
                wanted = chosen
            best.append(chosen)
        best = self._shared_endings(best, clauses)
        return self._reading(best, clauses, alternatives if len(clauses) == 1 else [])

    def _after(self, before: Candidate, chosen: Candidate, clause: _Clause) -> Candidate:
        """A clause of one unit stands where it fits what was said before: "riding a horse or a bike".

        One without a subject goes on with the last: "someone sitting on a bench and reading a book".
        """
        if clause.role != "not" and len(chosen.units) > 1 and chosen.units[:1] == (None,) != before.units[:1]:
            continued = (*before.units[:1], *chosen.units[1:])
            if chosen.units[1] is not None and shows(self.facts, FactQuery(continued)):
                return Candidate(continued, chosen.cost, chosen.notes)
        if sum(unit is not None for unit in chosen.units) > 1:
            return chosen
        if clause.role == "not" and len(before.units) < 3 and self._goes_with(before, 2, clause):
            position = 2  # a person without a horse, riding but not a horse: the horse is what a person rides
        elif len(before.units) > 1:
            position = len(before.units) - 1
        else:
            return chosen
        there = self._at(position, clause)
        if there is None:
            return chosen
        if clause.role == "not":
            return there
        joined = (*before.units[:position], there.units[position])
        return Candidate(joined, there.cost, there.notes) if shows(self.facts, FactQuery(joined)) else chosen

    def _at(self, position: int, clause: _Clause) -> Candidate | None:
        there = self.reader.candidates(clause.words, position)[0]
        return there if len(there.units) == position + 1 and not any(there.units[:position]) else None

    def _goes_with(self, before: Candidate, position: int, clause: _Clause) -> bool:
        there = self._at(position, clause)
        return there is not None and shows(self.facts, FactQuery((*before.units, *there.units[len(before.units) :])))

    def _shared_endings(self, best: Sequence[Candidate], clauses: Sequence[_Clause]) -> list[Candidate]:
        """In "a man or a woman riding a horse", the man rides as well."""
        result = list(best)
        for place in range(len(result) - 2, -1, -1):
            this, after = result[place], result[place + 1]
            if "not" in (clauses[place].role, clauses[place + 1].role):
                continue
            if len(this.units) == 1 < len(after.units) and after.units[0] is not None:
                joined = (*this.units, *after.units[1:])
                if shows(self.facts, FactQuery(joined)):
                    result[place] = Candidate(joined, this.cost, this.notes)
        return result

    def _reading(
        self, best: Sequence[Candidate], clauses: Sequence[_Clause], alternatives: Sequence[FactQuery]
    ) -> Reading:
        by_role: dict[str, list[FactQuery]] = {"first": [], "and": [], "or": [], "not": []}
        for candidate, clause in zip(best, clauses, strict=True):
            if candidate.query not in by_role[clause.role]:
                by_role[clause.role].append(candidate.query)
        wanted = [*by_role["first"], *by_role["and"], *by_role["or"]]
        query = wanted[0]
        return Reading(
            self.text,
            query,
            tuple(each for each in by_role["and"] if each != query),
            tuple(by_role["not"]),
            tuple(each for each in by_role["or"] if each != query),
            tuple(dict.fromkeys(note for candidate in best for note in candidate.notes)),
            tuple(alternatives),
        )
