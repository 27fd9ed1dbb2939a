"""How well a query is answered by the models after each task, so that forgetting can be seen."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from factlearn.errors import FactlearnError
from factlearn.evaluation.ranking import average_precision
from factlearn.evaluation.scoring import masked_scores
from factlearn.facts import Fact, FactQuery
from factlearn.retrieval.anywhere import anywhere as placed_anywhere
from factlearn.retrieval.items import FACTS, METADATA, facts_of
from factlearn.retrieval.options import filter_of
from factlearn.retrieval.rows import unpack
from factlearn.retrieval.sentences import Reading
from factlearn.retrieval.where import columns_of
from factlearn.server.asking import Options, query
from factlearn.server.catalog import Served
from factlearn.server.snapshots import Snapshot

_SPLIT = "split"
TEST = f"{_SPLIT} = 'test'"
_MOST = 200_000  # images: beyond that a ranking of all of them takes too long for a page
_MOST_EXPLAINED = 20_000  # of queries with weights or with and, or, not, which are ranked by the index itself


def judged_by(snapshot: Snapshot, where: str | None) -> str | None:
    """The filter for the images that a query is judged on.

    Of those that pass the query's own filter, the test images, if the index tells which those are and the filter leaves
    any and does not choose a split itself.
    """
    columns = {column.name: column for column in snapshot.columns if column.metadata}
    given = filter_of(where)
    if given is not None and _SPLIT in {name.removeprefix(METADATA) for name in columns_of(given)}:
        return where
    if _SPLIT not in columns or not any(value == "test" for value, _ in columns[_SPLIT].values):
        return where
    test = f"{TEST} and ({where})" if where else TEST
    return test if len(snapshot.index.store.keys(filter_of(test))) else where


def judge(snapshot: Snapshot, reading: Reading, options: Options) -> tuple[float | None, int, int]:
    """The average precision of a query over labelled images; how many were judged, and how many are relevant.

    An image is relevant if its label shows what is asked for and nothing unwanted; one that the query's exclusions drop
    from the answer is never found.
    """
    index = snapshot.index
    plain = reading.is_single and options == Options(where=options.where)
    plain = plain and not index.confidence.never_taught(reading)
    if len(index) > (_MOST if plain else _MOST_EXPLAINED):
        return None, 0, 0
    keys = index.store.keys(filter_of(options.where))
    items = index.store.items(keys)
    labelled = [place for place, item in enumerate(items) if item["fact"]]
    ids = [items[place]["id"] for place in labelled]
    wanted = placed_anywhere(reading, index.vocabulary) if options.anywhere else reading
    labels = [items[place].get(FACTS) or items[place]["fact"] for place in labelled]
    answers = {text: _is_relevant(facts_of({"fact": text}), wanted) for text in set(labels)}
    relevant = np.array([answers[text] for text in labels], bool)
    if not relevant.any():
        return None, len(ids), 0
    if plain:
        vectors = unpack(index.store.take(keys[np.array(labelled)]))
        scores = masked_scores(vectors, *index.language.embed([reading.query]))[0]
        return average_precision(scores, relevant, ids), len(ids), int(relevant.sum())
    right = dict(zip(ids, relevant, strict=True))
    hits = query(snapshot, reading, replace(options, k=len(index)))
    found = np.array([right[hit.id] for hit in hits if hit.id in right], bool)
    precision = average_precision(-np.arange(len(found)), found) if found.any() else 0.0
    return precision * found.sum() / relevant.sum(), len(ids), int(relevant.sum())


def _is_relevant(labels: Sequence[Fact], reading: Reading) -> bool:
    def shows(one: FactQuery) -> bool:
        return any(one.matches(label) for label in labels)

    either = any(map(shows, (reading.query, *reading.any_of)))
    return either and all(map(shows, reading.also)) and not any(map(shows, reading.without))


def stages_of(served: Served, reading: Reading | None, options: Options) -> dict[str, Any]:
    """Every stage of an index, with what the run achieved after it and how well the query does."""
    snapshot = served.current()
    metrics = served.run["metrics"] if served.run is not None else None
    over = judged_by(snapshot, options.where) if reading is not None else None
    images = relevant = 0
    stages = []
    for stage, sibling in served.stages.items():
        precision = None
        state = sibling.snapshot
        if reading is not None and state is not None:
            try:
                precision, judged, right = judge(state, reading, replace(options, where=over))
                images, relevant = max(images, judged), max(relevant, right)
            except FactlearnError:
                precision = None
        about = {"stage": stage, "index": sibling.name, "ready": state is not None, "average_precision": precision}
        stages.append({**about, **achieved(metrics, stage)})
    return {
        "index": served.name,
        "run": served.run_name,
        "query": None if reading is None else str(reading),
        "over": over,
        "images": images,
        "relevant": relevant,
        "stages": stages,
    }


def achieved(metrics: dict[str, Any] | None, stage: int) -> dict[str, Any]:
    """What a run achieved after one stage: MAP over everything, and of each task learned by then."""
    if metrics is None or stage > len(metrics["moments"]):
        return {"moment": None, "map_all": None, "tasks": {}}
    row: Sequence[float | None] = metrics["matrix"]["exact"][stage - 1]
    learned = {name: value for name, value in zip(metrics["tasks"], row, strict=True) if value is not None}
    return {
        "moment": metrics["moments"][stage - 1],
        "map_all": metrics["whole"]["exact"][stage - 1],
        "tasks": learned,
    }
