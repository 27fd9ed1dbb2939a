"""Facts such as `<person, riding, bike>`, queries with wildcards, and which facts match which query."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from factlearn.errors import FactError

UNIT_NAMES = ("subject", "predicate", "object")
WILDCARD = "*"
_RESERVED = frozenset("<>,|*")
_SURROGATES = re.compile("[\ud800-\udfff]")  # how Python spells bytes that are not Unicode text


class Relevance(StrEnum):
    """Which facts match a query."""

    EXACT = "exact"
    """The same fact: as many units, each equal (or a wildcard)."""
    PREFIX = "prefix"
    """Every fact that starts with the query's units (the rule of Sherlock): `<person>` is answered by
    `<person, riding, bike>`."""


def normalise_unit(text: str | None) -> str | None:
    """Lower-case a unit, fold its white space and compose its accents; an empty unit and `*` become None."""
    words = " ".join(unicodedata.normalize("NFC", (text or "").lower()).split())
    return None if words in ("", WILDCARD) else words


def _checked_units(units: Sequence[str | None], whole: str) -> tuple[str | None, ...]:
    if len(units) > len(UNIT_NAMES):
        raise FactError(f"{whole!r} has {len(units)} units; a fact has at most subject, predicate and object.")
    normal = tuple(normalise_unit(unit) for unit in units)
    for unit in normal:
        if unit and _RESERVED.intersection(unit):
            raise FactError(f"{whole!r}: the unit {unit!r} contains one of the reserved characters < > , | *.")
        if unit and _SURROGATES.search(unit):
            raise FactError(f"{whole!r}: the unit {unit!r} is not Unicode text; correct its encoding.")
    return normal


def _split_units(text: str) -> list[str]:
    """Split `<a, b>`, `a, b` or `a | b` at its separators, keeping empty units."""
    body = text.strip()
    if body.startswith("<") != body.endswith(">") or body in ("<", ">"):
        raise FactError(f"{text!r} has an unmatched bracket; write <subject, predicate, object>.")
    body = body.removeprefix("<").removesuffix(">")
    if "," in body and "|" in body:
        raise FactError(f"{text!r} mixes ',' and '|'; use one of them between the units.")
    return body.split("|" if "|" in body else ",")


def is_structured(text: str) -> bool:
    """Whether the text names its units with brackets or separators, rather than in plain words."""
    return any(mark in text for mark in "<>,|") or text.strip() == WILDCARD


@dataclass(frozen=True, order=True)
class Fact:
    """A fact of order 1 to 3: `<dog>`, `<person, jumping>` or `<person, riding, bike>`.

    Example:
        >>> Fact("person", "riding", "bike").order
        3
        >>> str(Fact.parse("person | jumping"))
        '<person, jumping>'
    """

    subject: str
    predicate: str = ""
    object: str = ""

    def __post_init__(self) -> None:
        whole = f"<{self.subject}, {self.predicate}, {self.object}>"
        subject, predicate, obj = _checked_units((self.subject, self.predicate, self.object), whole)
        if subject is None:
            raise FactError(f"{whole} has no subject; only a query may leave it open.")
        if obj is not None and predicate is None:
            raise FactError(f"{whole} has an object but no predicate; only a query may leave it open.")
        object.__setattr__(self, "subject", subject)
        object.__setattr__(self, "predicate", predicate or "")
        object.__setattr__(self, "object", obj or "")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `<person, riding, bike>`, `person, riding, bike` or `person | riding | bike`."""
        return cls(*("" if unit is None else unit for unit in _checked_units(_split_units(text), text)))

    @property
    def units(self) -> tuple[str, ...]:
        """The units the fact has, subject first."""
        return tuple(unit for unit in (self.subject, self.predicate, self.object) if unit)

    @property
    def order(self) -> int:
        """How many units the fact has."""
        return len(self.units)

    def __str__(self) -> str:
        return f"<{', '.join(self.units)}>"


@dataclass(frozen=True)
class Vocabulary:
    """The units known in each position, against which plain words are read, and the facts they come from."""

    subjects: frozenset[str]
    predicates: frozenset[str]
    objects: frozenset[str]
    facts: frozenset[Fact] = frozenset()

    @classmethod
    def of(cls, facts: Iterable[Fact]) -> Self:
        """The vocabulary of a collection of facts."""
        facts = list(facts)
        return cls(
            frozenset(fact.subject for fact in facts),
            frozenset(fact.predicate for fact in facts if fact.predicate),
            frozenset(fact.object for fact in facts if fact.object),
            frozenset(facts),
        )

    @property
    def positions(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """The known subjects, predicates and objects."""
        return self.subjects, self.predicates, self.objects

    @property
    def units(self) -> frozenset[str]:
        """The units known in any position."""
        return self.subjects | self.predicates | self.objects

    def readings(self, words: Sequence[str], position: int = 0) -> Iterator[tuple[str | None, ...]]:
        """Every way to read the words as units from `position` on, longest units first."""
        if not words:
            yield ()
            return
        if position >= len(UNIT_NAMES):
            return
        known = self.positions[position]
        for length in range(len(words), 0, -1):
            unit = " ".join(words[:length])
            if unit in known:
                for rest in self.readings(words[length:], position + 1):
                    yield (unit, *rest)
        for rest in self.readings(words, position + 1):
            yield (None, *rest)


@dataclass(frozen=True)
class FactQuery:
    """A query: a fact in which None is a wildcard.

    Example:
        >>> query = FactQuery.parse("<person, *, bike>")
        >>> query.matches(Fact("person", "riding", "bike"))
        True
    """

    units: tuple[str | None, ...]

    def __post_init__(self) -> None:
        units = _checked_units(self.units, str(self))
        if not any(units):
            raise FactError(f"{self} leaves every unit open; name at least one of subject, predicate, object.")
        object.__setattr__(self, "units", units)

    @classmethod
    def of(cls, fact: Fact) -> Self:
        """The query for exactly this fact."""
        return cls(fact.units)

    @classmethod
    def parse(cls, text: str, vocabulary: Vocabulary | None = None) -> Self:
        """Read a structured query, or plain words against a vocabulary of known units.

        Without a vocabulary plain words are one unit, the subject. With one, a reading without a wildcard is
        preferred, and the longest units from the left where the words could be cut in several ways.

        Raises:
            FactError: if the text is empty, malformed, not in the vocabulary, or readable in several ways.
        """
        if not text.strip():
            raise FactError("The query is empty; write for example <person, riding, bike>.")
        if is_structured(text) or vocabulary is None:
            return cls(_checked_units(_split_units(text), text))
        return cls._from_words(text, vocabulary)

    @classmethod
    def _from_words(cls, text: str, vocabulary: Vocabulary) -> Self:
        words = (normalise_unit(text) or "").split()
        readings = list(vocabulary.readings(words))
        if not readings:
            strange = [word for word in words if not any(word in unit.split() for unit in vocabulary.units)]
            what = f"no known unit contains {', '.join(map(repr, strange))}" if strange else "no known units fit"
            raise FactError(f"Cannot read {text!r} as a fact: {what}; write <subject, predicate, object> instead.")
        complete = [reading for reading in readings if None not in reading]
        if complete:
            return cls(complete[0])
        longest: dict[tuple[bool, ...], tuple[str | None, ...]] = {}
        for reading in readings:
            longest.setdefault(tuple(unit is None for unit in reading), reading)
        if len(longest) > 1:
            listed = " or ".join(str(cls(reading)) for reading in longest.values())
            raise FactError(f"{text!r} can be read as {listed}; write the one you mean.")
        return cls(readings[0])

    @property
    def mask(self) -> tuple[bool, bool, bool]:
        """Which of subject, predicate and object the query names."""
        named = [unit is not None for unit in self.units] + [False] * (len(UNIT_NAMES) - len(self.units))
        return (named[0], named[1], named[2])

    def matches(self, fact: Fact, relevance: Relevance | str = Relevance.PREFIX) -> bool:
        """Whether images of the fact match this query."""
        relevance = Relevance(relevance)
        if relevance is Relevance.EXACT and fact.order != len(self.units):
            return False
        units = (fact.subject, fact.predicate, fact.object)
        return all(asked is None or asked == unit for asked, unit in zip(self.units, units, strict=False))

    def __str__(self) -> str:
        return f"<{', '.join(unit or WILDCARD for unit in self.units)}>"


def read_patterns(path: Path) -> list[str]:
    """The facts and patterns in a text file, one per line; empty lines and `#` comments are ignored.

    Raises:
        FactError: if the file cannot be read, or names none.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise FactError(f"{path} is not a readable text file of facts ({error}).") from None
    patterns = [line for line in lines if line and not line.startswith("#")]
    if not patterns:
        raise FactError(f"{path} names no facts; write one per line, such as <person, *, tennis>.")
    return patterns
