"""How well a query is answered by the models after each task, so that forgetting can be seen."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from factlearn.errors import FactlearnError
from factlearn.evaluation.ranking import average_precision
from factlearn.evaluation.scoring import masked_scores
from factlearn.facts import Fact, FactQuery
from factlearn.retrieval.options import filter_of
from factlearn.retrieval.rows import unpack
from factlearn.server.catalog import Served
from factlearn.server.snapshots import Snapshot

TEST = "split = 'test'"
_MOST = 200_000  # images: beyond that a ranking of all of them takes too long for a page


def judged_by(snapshot: Snapshot) -> str | None:
    """The filter for the images that a query is judged on: the test images, if the index tells which those are."""
    columns = {column.name: column for column in snapshot.columns if column.metadata}
    split = columns.get("split")
    return TEST if split is not None and any(value == "test" for value, _ in split.values) else None


def judge(snapshot: Snapshot, query: FactQuery, where: str | None) -> tuple[float | None, int, int]:
    """The average precision of a query over labelled images; how many were judged, and how many are relevant."""
    store = snapshot.index.store
    if len(store) > _MOST:
        return None, 0, 0
    keys = store.keys(filter_of(where))
    items = store.items(keys)
    labelled = [place for place, item in enumerate(items) if item["fact"]]
    facts = {text: query.matches(Fact.parse(text)) for text in {items[place]["fact"] for place in labelled}}
    relevant = np.array([facts[items[place]["fact"]] for place in labelled], bool)
    if not relevant.any():
        return None, len(labelled), 0
    vectors = unpack(store.take(keys[np.array(labelled)]))
    targets, mask = snapshot.index.language.embed([query])
    scores = masked_scores(vectors, targets, mask)[0]
    ids = [items[place]["id"] for place in labelled]
    return average_precision(scores, relevant, ids), len(labelled), int(relevant.sum())


def stages_of(served: Served, query: FactQuery | None) -> dict[str, Any]:
    """Every stage of an index, with what the run achieved after it and how well the query does."""
    snapshot = served.current()
    metrics = served.run["metrics"] if served.run is not None else None
    over = judged_by(snapshot) if query is not None else None
    images = relevant = 0
    stages = []
    for stage, sibling in served.stages.items():
        precision = None
        state = sibling.snapshot
        if query is not None and state is not None:
            try:
                precision, judged, right = judge(state, query, over)
                images, relevant = max(images, judged), max(relevant, right)
            except FactlearnError:
                precision = None
        about = {"stage": stage, "index": sibling.name, "ready": state is not None, "average_precision": precision}
        stages.append({**about, **achieved(metrics, stage)})
    return {
        "index": served.name,
        "run": served.run_name,
        "query": None if query is None else str(query),
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
