"""What every source of facts gives: samples, each an image with the facts it shows, if known."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from factlearn import places
from factlearn.errors import DatasetError
from factlearn.facts import Fact
from factlearn.files import fingerprint

SPLITS = ("train", "test")


@dataclass(frozen=True)
class Sample:
    """One image with the facts it shows.

    Attributes:
        id: stable, unique in its dataset, independent of where the dataset is stored.
        fact: the first of its facts; None if unlabelled.
        split: "train", "test" or "" (neither).
        metadata: anything else the source knows, as text.
        more: its further facts, each with what the source knows beside it.
    """

    id: str
    path: Path
    fact: Fact | None = None
    split: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    more: Mapping[Fact, Mapping[str, str]] = field(default_factory=dict, hash=False)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts it shows, in their order; none if unlabelled."""
        return () if self.fact is None else (self.fact, *self.more)

    @property
    def labels(self) -> dict[Fact, Mapping[str, str]]:
        """All facts it shows, each with its metadata."""
        return {} if self.fact is None else {self.fact: self.metadata, **self.more}

    def showing(self, labels: Mapping[Fact, Mapping[str, str]]) -> Self:
        """The same image with other facts, at least one."""
        (fact, metadata), *more = labels.items()
        return replace(self, fact=fact, metadata=metadata, more=dict(more))


@dataclass(frozen=True)
class FactDataset:
    """A named, ordered collection of samples.

    Attributes:
        name: for people and run records.
        samples: in a fixed order.
        aliases: units that use the word vector of other words.
    """

    name: str
    samples: tuple[Sample, ...]
    aliases: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for sample in self.samples:
            if sample.id in seen:
                raise DatasetError(f"The dataset {self.name!r} has two samples called {sample.id!r}.")
            seen.add(sample.id)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The distinct facts, sorted."""
        return tuple(sorted({fact for sample in self.samples for fact in sample.facts}))

    def of_split(self, split: str) -> Self:
        """The training or the test samples."""
        if split not in SPLITS:
            raise DatasetError(f"There is no split {split!r}; the splits are {' and '.join(SPLITS)}.")
        return self._where(sample for sample in self.samples if sample.split == split)

    def of_facts(self, facts: Iterable[Fact]) -> Self:
        """The samples that show one of these facts, each with those of its facts that are among them."""
        wanted = frozenset(facts)
        kept = []
        for sample in self.samples:
            chosen = {fact: known for fact, known in sample.labels.items() if fact in wanted}
            if chosen:
                kept.append(sample if len(chosen) == len(sample.facts) else sample.showing(chosen))
        return self._where(kept)

    def limited(self, facts: int | None, images: int | None) -> Self:
        """At most so many facts, and so many training samples of each, both evenly spread; all of them if None."""
        known = self.of_split("train").facts
        if facts is not None and facts < len(known):
            return self.of_facts(known[place * len(known) // facts] for place in range(facts)).limited(None, images)
        if images is None:
            return self
        by_fact: dict[Fact | None, list[Sample]] = {}
        for sample in self.samples:
            if sample.split == "train":
                by_fact.setdefault(sample.fact, []).append(sample)
        kept: set[str] = set()
        for samples in by_fact.values():
            count = min(images, len(samples))
            kept.update(samples[number * len(samples) // count].id for number in range(count))
        return self._where(sample for sample in self.samples if sample.split != "train" or sample.id in kept)

    def _where(self, samples: Iterable[Sample]) -> Self:
        return replace(self, samples=tuple(samples))

    @property
    def fingerprint(self) -> str:
        """Identifies exactly these samples by ids, facts, splits and file sizes, wherever they are stored."""
        rows = [
            [s.id, s.fact.units if s.fact else None, s.split, _size(s.path), *(fact.units for fact in s.more)]
            for s in self.samples
        ]
        return fingerprint(rows, dict(self.aliases))

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.samples)


def _size(path: Path) -> int:
    try:
        return places.status(path).size
    except OSError as error:
        raise DatasetError(f"The image {path} cannot be read any more: {error.strerror}.") from error
