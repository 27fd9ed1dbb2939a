"""Refreshing an index: repairing damage, and keeping up with a model that keeps learning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from factlearn.evaluation.facts import evaluate_vectors
from factlearn.indexing.building import add_samples
from factlearn.indexing.drift import GroupDrift, measure_drift, sample_groups, shown_facts
from factlearn.indexing.embedding import Embedder
from factlearn.indexing.matching import is_gone, sample_of
from factlearn.indexing.versions import known_facts
from factlearn.learning.runs import Run
from factlearn.retrieval import FactIndex, Version, store_at
from factlearn.retrieval.items import facts_of
from factlearn.retrieval.rows import unpack

Policy = Literal["drift", "all", "repair"]


@dataclass(frozen=True)
class Drift:
    """What a newer model does to the images of an index that older ones embedded.

    Attributes:
        version: the newer model.
        old: how many images older models embedded.
        groups: by fact, the worst loss first.
        map_before, map_after, map_guided: MAP over the sampled images whose fact is known, with their old vectors,
            their new ones, and the new ones where their fact gains; None where no fact is known.
    """

    version: Version
    old: int
    groups: tuple[GroupDrift, ...] = ()
    map_before: float | None = None
    map_after: float | None = None
    map_guided: float | None = None

    @property
    def gaining(self) -> int:
        """How many images are of facts that gain."""
        return sum(group.images for group in self.groups if group.gains)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "model": self.version.fingerprint,
            "stage": self.version.stage,
            "old_images": self.old,
            "gaining_images": self.gaining,
            "map_before": self.map_before,
            "map_after": self.map_after,
            "map_guided": self.map_guided,
            "groups": [group.to_json() for group in self.groups],
        }


@dataclass
class Refreshed:
    """The result of refreshing.

    Attributes:
        repaired: images whose damaged vectors were made again.
        embedded: images that were embedded again.
        kept: images that are there and keep their vectors.
        missing: ids of images whose files are gone; their vectors are kept, unless damaged.
    """

    repaired: int = 0
    embedded: int = 0
    kept: int = 0
    missing: list[str] = field(default_factory=list)


class _Old:
    """The images of an index that models other than the given one embedded, and a sample of them embedded by it.

    Facts are those of the index and of the run: a model that has learned more is judged by what it knows now.
    """

    def __init__(self, index: FactIndex, embedder: Embedder, each: int, seed: int) -> None:
        version = embedder.version
        keys = index.store.keys()
        items = index.store.items(keys)
        by_id = sorted(range(len(items)), key=lambda place: str(items[place]["id"]))  # each store has its own order
        stale = [p for p in by_id if items[p]["model"] != version.fingerprint and not is_gone(items[p])]
        self.items = [items[place] for place in stale]
        self.vectors = unpack(index.store.take(keys[np.array(stale, np.intp)]))
        self.facts = tuple(sorted({*index.facts, *known_facts(embedder.run)}))
        self.shown = [facts_of(item) for item in self.items]
        self.labels = [next(iter(facts), None) for facts in self.shown]
        language = embedder.run.language()
        language.learn_units(index.language)
        self.targets = language.embed(self.facts)
        self.drift: list[GroupDrift] = []
        if self.items and self.facts and each:
            self.groups = shown_facts(self.vectors, self.labels, self.facts, self.targets)
            self.sampled = sample_groups(self.groups, each, seed)
            self.sampled, self.new = self._embedded(embedder)
            before = self.vectors[self.sampled]
            self.drift = measure_drift(
                self.groups, self.sampled, before, self.new, self.labels, self.facts, self.targets
            )

    def _embedded(self, embedder: Embedder) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """The sampled images that can be decoded, and their new vectors."""
        samples = {self.items[place]["id"]: place for place in self.sampled}
        vectors, kept = embedder([sample_of(self.items[place]) for place in self.sampled])
        return np.array([samples[sample.id] for sample in kept], np.intp), vectors

    def gaining(self) -> NDArray[np.intp]:
        """The images of facts that gain."""
        facts = {group.fact for group in self.drift if group.gains}
        return np.flatnonzero([self.facts[group] in facts for group in self.groups])

    def map_of(self, vectors: NDArray[np.float32]) -> float | None:
        """MAP over the sampled images whose fact is known."""
        known = [place for place, row in enumerate(self.sampled) if not set(self.facts).isdisjoint(self.shown[row])]
        shown = [self.shown[self.sampled[place]] for place in known]
        if not known:
            return None
        ids = [self.items[self.sampled[place]]["id"] for place in known]
        result = evaluate_vectors(vectors[known], shown, self.facts, self.targets, ids=ids)
        return result.map_all


def measure(
    index: FactIndex, run: Run | None = None, *, stage: int | None = None, each: int = 5, seed: int = 0
) -> Drift:
    """Measure how an index's images move under the newest model of a run, and what that does to MAP.

    Args:
        each: images sampled for every fact.
    """
    embedder = Embedder.following(index, run, stage, skip_unreadable=True)
    version = embedder.version
    old = _Old(index, embedder, each, seed)
    if not old.drift:
        return Drift(version, len(old.items))
    before = old.vectors[old.sampled]
    gains = np.isin(old.sampled, old.gaining())
    guided = np.where(gains[:, None, None], old.new, before)
    maps = (old.map_of(vectors) for vectors in (before, old.new, guided))
    return Drift(version, len(old.items), tuple(old.drift), *maps)


def refresh(
    path: Path | str,
    run: Run | None = None,
    *,
    policy: Policy = "drift",
    stage: int | None = None,
    each: int = 5,
    seed: int = 0,
) -> Refreshed:
    """Repair an index, then re-embed what the newest model of a run improves.

    Args:
        policy: `drift` embeds again the images of facts that a sample shows to gain, `all` every image that an older
            model embedded, `repair` only images whose vectors were lost.
        each: images sampled for every fact.
    """
    report = Refreshed()
    lost = store_at(path).restore(path, None if run is None else run.language())
    index = FactIndex.open(path)
    if lost or policy != "repair":
        embedder = Embedder.following(index, run, stage, skip_unreadable=True)
        report.repaired = _embed_again(index, embedder, lost)
    if policy != "repair":
        old = _Old(index, embedder, 0 if policy == "all" else each, seed)
        chosen: Sequence[Any] = old.items
        if policy == "drift":
            chosen = [old.items[place] for place in old.gaining()] if old.drift else []
        report.embedded = _embed_again(index, embedder, chosen)
    missing = [item["id"] for item in index.items() if is_gone(item)]
    report.kept = len(index) - report.repaired - report.embedded - len(missing)
    report.missing = missing + [item["id"] for item in lost if is_gone(item)]
    return report


def _embed_again(index: FactIndex, embedder: Embedder, items: Sequence[Mapping[str, Any]]) -> int:
    """Embed images of an index again; how many could be."""
    return len(add_samples(index, [sample_of(item) for item in items if not is_gone(item)], embedder))
