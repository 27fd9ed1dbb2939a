"""Keeping an index true: repairing damage, and following a model that keeps learning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from factlearn.data.samples import Sample
from factlearn.evaluation.facts import evaluate_vectors
from factlearn.facts import Fact
from factlearn.indexing.building import Embedder, known_facts, run_of, stored_columns, version_of
from factlearn.indexing.drift import GroupDrift, measure_drift, sample_groups, shown_facts
from factlearn.learning.results import load_model
from factlearn.learning.runs import Run
from factlearn.progress import say
from factlearn.retrieval import FactIndex, Version, store_at
from factlearn.retrieval.items import metadata_of
from factlearn.retrieval.rows import unpack

Policy = Literal["drift", "all", "repair"]
_COMMIT_EVERY = 4096


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
    """What refreshing did."""

    repaired: int = 0
    embedded: int = 0
    kept: int = 0
    missing: list[str] = field(default_factory=list)


class _Old:
    """The images of an index that models other than the given one embedded, and a sample of them embedded by it."""

    def __init__(self, index: FactIndex, embedder: Embedder, version: Version, each: int, seed: int) -> None:
        keys = index.store.keys()
        items = index.store.items(keys)
        stale = [place for place, item in enumerate(items) if item["model"] != version.fingerprint]
        self.items = [items[place] for place in stale if Path(items[place]["path"]).is_file()]
        self.missing = [items[place]["id"] for place in stale if not Path(items[place]["path"]).is_file()]
        readable = np.array([place for place in stale if Path(items[place]["path"]).is_file()], np.intp)
        self.vectors = unpack(index.store.take(keys[readable]))
        self.facts = index.facts
        self.labels = [Fact.parse(item["fact"]) if item["fact"] else None for item in self.items]
        self.targets = index.language.embed(self.facts)
        self.drift: list[GroupDrift] = []
        if self.items and self.facts and each:
            self.groups = shown_facts(self.vectors, self.labels, self.facts, self.targets)
            self.sampled = sample_groups(self.groups, each, seed)
            self.new, _ = embedder([sample_of(self.items[place]) for place in self.sampled], own=False)
            before = self.vectors[self.sampled]
            self.drift = measure_drift(
                self.groups, self.sampled, before, self.new, self.labels, self.facts, self.targets
            )

    def gaining(self) -> NDArray[np.intp]:
        """The images of facts that gain."""
        facts = {group.fact for group in self.drift if group.gains}
        return np.flatnonzero([self.facts[group] in facts for group in self.groups])

    def map_of(self, vectors: NDArray[np.float32]) -> float | None:
        """MAP over the sampled images whose fact is known."""
        known = [place for place, row in enumerate(self.sampled) if self.labels[row] in self.facts]
        shown = [self.labels[self.sampled[place]] for place in known]
        if not known:
            return None
        ids = [self.items[self.sampled[place]]["id"] for place in known]
        result = evaluate_vectors(vectors[known], [f for f in shown if f], self.facts, self.targets, ids=ids)
        return result.map_all


def sample_of(item: Mapping[str, Any]) -> Sample:
    """An image of an index, to be embedded again."""
    metadata = metadata_of(item)
    split = metadata.pop("split", "")
    return Sample(item["id"], Path(item["path"]), Fact.parse(item["fact"]) if item["fact"] else None, split, metadata)


def measure(
    index: FactIndex, run: Run | None = None, *, stage: int | None = None, each: int = 5, seed: int = 0
) -> Drift:
    """How the images of an index move under the newest model of a run, and what that does to MAP.

    Args:
        each: images sampled for every fact.
    """
    embedder, version = _newest(index, run, stage)
    old = _Old(index, embedder, version, each, seed)
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
    """Repair an index, then embed again what gains by the newest model of a run.

    Args:
        policy: `drift` embeds again the images of facts that a sample shows to gain, `all` every image that an older
            model embedded, `repair` only images whose vectors were lost.
        each: images sampled for every fact.
    """
    report = Refreshed()
    lost = store_at(path).restore(path, None if run is None else run.language())
    index = FactIndex.open(path)
    if not lost and policy == "repair":
        return report
    embedder, version = _newest(index, run, stage)
    report.repaired = _embed_again(index, embedder, version, lost, report)
    if policy == "repair":
        return report
    old = _Old(index, embedder, version, 0 if policy == "all" else each, seed)
    report.missing += old.missing
    if policy == "all":
        chosen: Sequence[Any] = old.items
    else:
        chosen = [old.items[place] for place in old.gaining()] if old.drift else []
    report.embedded = _embed_again(index, embedder, version, chosen, report)
    report.kept = len(old.items) - report.embedded
    return report


def _newest(index: FactIndex, run: Run | None, stage: int | None) -> tuple[Embedder, Version]:
    run = run_of(index, run)
    index.check_language(run.language())
    stage = run.finished_stages() if stage is None else stage
    model = load_model(run, stage)
    version = version_of(run, model, stage)
    index.check_version(version)
    return Embedder(run, model, stage, skip_unreadable=True), version


def _embed_again(
    index: FactIndex, embedder: Embedder, version: Version, items: Sequence[Mapping[str, Any]], report: Refreshed
) -> int:
    """Embed images of an index again, a few thousand per commit; how many there were."""
    there = [sample_of(item) for item in items if Path(item["path"]).is_file()]
    report.missing += [item["id"] for item in items if not Path(item["path"]).is_file()]
    facts, language = known_facts(embedder.run), embedder.run.language()
    done = 0
    for start in range(0, len(there), _COMMIT_EVERY):
        vectors, samples = embedder(there[start : start + _COMMIT_EVERY], own=False)
        index.add(
            vectors,
            [sample.id for sample in samples],
            model=version,
            known_facts=facts,
            language=language,
            **stored_columns(samples),
        )
        done += len(samples)
    if report.missing:
        say(f"{len(report.missing)} images are not where they were when they were indexed.")
    return done
