"""Choosing how an index folder is searched: build structures, measure them against the exact search, keep the fastest.

Recall is measured separately on queries that name all three units and on queries that leave units open, because a
structure can be good at one and bad at the other; the worse of the two must reach the target.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.language import LanguageSpace
from factlearn.retrieval.folder.lock import locked
from factlearn.retrieval.folder.manifest import StructureEntry
from factlearn.retrieval.folder.store import FolderStore
from factlearn.retrieval.folder.structures import structure_bytes, write_structure
from factlearn.retrieval.folder.writer import Writer
from factlearn.retrieval.rows import CHUNK, unpack, width_of
from factlearn.retrieval.search import Question, nearest
from factlearn.retrieval.trials import Trial

KINDS = ("flat", "pq", "ivf", "hnsw")
PATTERNS = tuple(itertools.product((0.0, 1.0), repeat=3))[1:]
_CANDIDATES = (100, 300, 1000, 3000)
_LARGE = 200_000  # above this a graph takes too long to build
_MANY = 4_000_000  # below this, sweeping all codes is faster than building and probing lists


@dataclass(frozen=True)
class _Exam:
    """Queries with their exact answers."""

    questions: Sequence[Question]
    answers: Sequence[NDArray[Any]]
    k: int

    @classmethod
    def of(cls, store: FolderStore, language: LanguageSpace, k: int, per_pattern: int, seed: int) -> "_Exam":
        questions = list(_questions(store, language, per_pattern, seed))
        return cls(questions, [found.keys for found in nearest(store, questions, k)], k)

    def take(self, store: FolderStore) -> tuple[float, float, float]:
        """Recall of queries that name all units and of others, and the median time in milliseconds."""
        shares: dict[bool, list[float]] = {True: [], False: []}
        times = []
        nearest(store, self.questions[:1], self.k)  # warm up: do not measure the first read
        for question, expected in zip(self.questions, self.answers, strict=True):
            started = time.perf_counter()
            found = nearest(store, [question], self.k)[0]
            times.append(time.perf_counter() - started)
            shares[bool(question.weights.all())].append(np.isin(expected, found.keys).mean())
        return float(np.mean(shares[True])), float(np.mean(shares[False])), 1000 * float(np.median(times))


def optimize(
    path: Path,
    language: LanguageSpace,
    *,
    target_recall: float = 0.95,
    memory: int | None = None,
    kinds: Sequence[str] = KINDS,
    k: int = 10,
    per_pattern: int = 24,
    seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> list[Trial]:
    """Join segments, then find the fastest way to search that reaches a recall within a memory limit, and use it.

    Args:
        path: the index's folder; other writers wait until this is done.
        language: the index's, for queries of known facts.
        target_recall: the share of the exact `k` best that must be found.
        memory: the limit in bytes; none if not given.
        kinds: the kinds to consider.
        k: the number of images per query.
        per_pattern: queries per pattern of open units.
        seed: for choosing the queries.
        say: called with each step.

    Returns:
        All trials; the one with the note "chosen" is now used.

    Raises:
        FactIndexError: if a kind is unknown, or none reaches the recall.
    """
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise FactIndexError(f"There is no kind {unknown[0]!r}; the kinds are {', '.join(KINDS)}.")
    with locked(path):
        writer = Writer(path)
        writer.update(structure=None)
        writer.compact(whole=True)
        writer.commit()
        writer = Writer(path)
        store = FolderStore(path, writer.manifest, writer.segments)
        exam = _Exam.of(store, language, k, per_pattern, seed)
        trials, entries = [], []
        for kind in kinds:
            for trial, entry in _try(kind, writer, store, exam, target_recall, memory, say):
                trials.append(trial)
                entries.append(entry)
        good = [
            place
            for place, trial in enumerate(trials)
            if not trial.note and trial.recall >= target_recall and trial.memory <= (memory or trial.memory)
        ]
        if not good:
            raise FactIndexError(
                f"None of {', '.join(kinds)} reaches recall {target_recall} within the memory limit; "
                "allow more memory or a lower recall."
            )
        chosen = min(good, key=lambda place: trials[place].milliseconds)
        best = trials[chosen]
        trials[chosen] = replace(best, note="chosen")
        entry = entries[chosen]
        if entry is not None:
            measured = {"recall_full": best.recall_full, "recall_wild": best.recall_wild}
            writer.update(structure=entry.model_copy(update={"measured": measured, "settings": best.settings}))
        writer.commit()
    return trials


def _try(
    kind: str,
    writer: Writer,
    store: FolderStore,
    exam: _Exam,
    target: float,
    memory: int | None,
    say: Callable[[str], None],
) -> Iterator[tuple[Trial, StructureEntry | None]]:
    """Measure one kind with one setting after the other."""
    count, dimension = len(store), writer.manifest.dimension
    if kind == "flat":
        say("measuring the exact scan")
        yield Trial("flat", {}, *exam.take(store), memory=count * width_of(dimension) * 4), None
        return
    for settings in _settings(kind, count, dimension):
        reason = _reason_against(settings, count, dimension, memory)
        if reason:
            yield Trial(kind, settings, note=reason), None
            continue
        say(f"building {kind} {settings.get('part', '')}".rstrip())
        names = [segment.entry.name for segment in writer.segments]
        entry = write_structure(writer.path, writer.new_name(), lambda: _rows(store), count, dimension, settings, names)
        reached = False
        for candidates in _CANDIDATES:
            entry = entry.model_copy(update={"settings": {**settings, "candidates": candidates}})
            trial_store = FolderStore(
                store.path, writer.manifest.model_copy(update={"structure": entry}), store.segments
            )
            found = Trial(kind, entry.settings, *exam.take(trial_store), memory=structure_bytes(entry))
            yield found, entry
            reached = found.recall >= target
            if reached:
                break
        if reached and kind != "pq":
            return


def _settings(kind: str, count: int, dimension: int) -> list[dict[str, Any]]:
    common = {"kind": kind, "dimension": dimension, "candidates": 0}
    if kind == "hnsw":
        return [{**common, "links": 32}]
    parts = sorted({max(1, min(size, dimension)) for size in (6, 4, 2)}, reverse=True)
    if kind == "pq":
        return [{**common, "part": part} for part in parts]
    lists = int(2 ** round(np.log2(4 * np.sqrt(count))))
    return [{**common, "part": parts[len(parts) // 2], "lists": lists, "probes": max(1, lists // 8)}]


def _reason_against(settings: dict[str, Any], count: int, dimension: int, memory: int | None) -> str:
    """Why a structure is not worth building; empty if it is."""
    if settings["kind"] == "hnsw":
        needed = count * (4 * width_of(dimension) + 8 * settings["links"])
        if count > _LARGE:
            return f"not built: a graph over {count} images takes too long"
    else:
        needed = count * 3 * -(-dimension // settings["part"]) // 2
        if count < 1000:
            return "not built: too few images to learn codes from"
        if settings["kind"] == "ivf" and count < _MANY:
            return f"not built: below {_MANY} images lists save nothing"
    return f"not built: needs {needed / 2**30:.1f} GiB" if memory is not None and needed > memory else ""


def _rows(store: FolderStore) -> Iterator[NDArray[np.float32]]:
    for segment in store.segments:
        for start in range(0, len(segment), CHUNK):
            yield segment.take(np.arange(start, min(start + CHUNK, len(segment))))


def _questions(store: FolderStore, language: LanguageSpace, per_pattern: int, seed: int) -> Iterator[Question]:
    """For each pattern, known facts and units combined from stored images."""
    generator = np.random.default_rng(seed)
    facts = store.about.facts
    known = language.embed(facts)
    for pattern in PATTERNS:
        weights = np.array(pattern)
        fitting = known[1].astype(bool)[:, weights > 0].all(axis=1) if facts else np.zeros(0, bool)
        chosen = generator.permutation(np.flatnonzero(fitting))[: per_pattern // 2]
        targets = [known[0][place] for place in chosen]
        while len(targets) < per_pattern:
            images = unpack(store.take(generator.choice(store.keys(), 3)))
            targets.append(np.stack([images[unit, unit] for unit in range(3)]))
        yield from (Question(target * (weights[:, None] > 0), weights) for target in targets)
