"""A state of an index and what is worked out about it once: readings of texts, counts of units, facts and columns."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from factlearn.errors import FactlearnError
from factlearn.facts import UNIT_NAMES, Fact, FactQuery, is_structured
from factlearn.retrieval import FactIndex
from factlearn.retrieval.items import FACTS, METADATA, facts_of
from factlearn.retrieval.sentences import Reading
from factlearn.retrieval.stores import Store
from factlearn.retrieval.verdicts import verdict
from factlearn.retrieval.where import Condition, number_of

_READINGS = 1024
_VALUES = 50


@dataclass(frozen=True)
class ColumnCounts:
    """A column's most frequent values with their counts, the number of distinct ones, and whether all are numbers."""

    name: str
    metadata: bool
    distinct: int
    numeric: bool
    values: Sequence[tuple[str, int]]


class Snapshot:
    """An opened index that never changes; a newer state is another snapshot."""

    def __init__(self, index: FactIndex) -> None:
        self.index = index
        self._read = lru_cache(_READINGS)(self._read_or_error)

    def read(self, text: str) -> Reading:
        """How a text is understood; texts asked before are remembered, and so are those that make no sense.

        Raises:
            FactlearnError: if it makes no sense.
        """
        found = self._read(text)
        if isinstance(found, FactlearnError):
            raise type(found)(str(found))  # a fresh one: tracebacks would pile up on the one remembered
        return found

    def _read_or_error(self, text: str) -> Reading | FactlearnError:
        for last in (False, False, True):
            try:
                return self._checked(text)
            except RecursionError:
                return FactlearnError("The query is nested too deeply; simplify it.")
            except FactlearnError as error:
                return error
            except RuntimeError:  # another thread has met a new unit meanwhile
                if last:
                    raise
        raise AssertionError("unreachable")

    def _checked(self, text: str) -> Reading:
        reading = self.index.read(text)
        for query in (reading.query, *reading.also, *reading.without, *reading.any_of):
            self.index.language.embed([query])  # a word without a vector is found here
        return reading

    def successor(self, store: Store) -> "Snapshot":
        """A newer state of the same index; word vectors that are loaded already stay so."""
        language, newer = self.index.language, store.load_language()
        if newer.fingerprint != language.fingerprint:
            return Snapshot(FactIndex(store, newer))
        language.learn_units(newer)
        return Snapshot(FactIndex(store, language))

    def warm(self) -> None:
        """Do once what the first request would otherwise wait for."""
        facts = self.index.facts[:2]
        for fact in facts:
            verdict(fact, FactQuery.of(facts[0]), self.index.vocabulary)
            self.read(" ".join(fact.units))
        _ = self.units, self.columns

    def is_quick(self, text: str) -> bool:
        """Whether a text names only known units, so that reading it takes no search for words."""
        if not is_structured(text):
            return False
        try:
            units = FactQuery.parse(text).units
        except FactlearnError:
            return True
        return all(unit is None or unit in self.index.vocabulary.units for unit in units)

    def item(self, image: str) -> dict[str, Any] | None:
        """What is known about an image, if the index holds it."""
        keys = self.key(image)
        return dict(self.index.store.items(keys)[0]) if len(keys) else None

    def key(self, image: str) -> Any:
        """The key of an image, as an array of one; empty if the index does not hold it."""
        return self.index.store.keys(Condition("id", "=", (image,)))

    @cached_property
    def items(self) -> Sequence[Any]:
        """The items of all images."""
        return self.index.items()

    @cached_property
    def labels(self) -> Counter[Fact]:
        """How many images are labelled with each fact."""
        texts = Counter(item.get(FACTS) or item["fact"] for item in self.items if item["fact"])
        counts: Counter[Fact] = Counter()
        for text, count in texts.items():
            counts.update(dict.fromkeys(facts_of({"fact": text}), count))
        return counts

    @cached_property
    def units(self) -> list[tuple[str, str, int, int]]:
        """Unit, position, images labelled with it and facts that contain it; most images first."""
        images: Counter[tuple[str, str]] = Counter()
        facts: Counter[tuple[str, str]] = Counter()
        for fact in {*self.index.facts, *self.labels}:
            for position, unit in zip(UNIT_NAMES, fact.units, strict=False):
                facts[unit, position] += 1
                images[unit, position] += self.labels[fact]
        found = [(unit, position, images[unit, position], count) for (unit, position), count in facts.items()]
        return sorted(found, key=lambda each: (-each[2], each[0], each[1]))

    @cached_property
    def columns(self) -> list[ColumnCounts]:
        """The columns that people filter by: the fact, the model and all metadata."""
        counts: dict[str, Counter[str]] = {}
        for item in self.items:
            for name, value in item.items():
                if value is not None and (name in ("fact", "model") or name.startswith(METADATA)):
                    counts.setdefault(name, Counter())[value] += 1
        return [
            ColumnCounts(
                name.removeprefix(METADATA),
                name.startswith(METADATA),
                len(found),
                all(number_of(value) is not None for value in found),
                sorted(found.items(), key=lambda each: (-each[1], each[0]))[:_VALUES],
            )
            for name, found in sorted(counts.items())
        ]

    @property
    def stage(self) -> int | None:
        """The stage of the newest model, if it came from a run."""
        return self.index.models[self.index.model].stage
