"""The worker that has the models: it embeds pictures and knows runs, so that torch stays out of the service itself."""

import math
from dataclasses import asdict
from functools import lru_cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factlearn.server.workers import lower_priority, serve_operations

if TYPE_CHECKING:
    from factlearn.learning.runs import Run

_MODELS = 2


def describe(index: str, run: str | None) -> tuple[Any, bytes]:
    """The run that keeps an index up to date, and what it achieved."""
    from factlearn.indexing.versions import known_facts, run_of, stage_of
    from factlearn.learning.runs import Run
    from factlearn.lifelong.registry import METHODS
    from factlearn.retrieval import FactIndex

    opened = FactIndex.open(index)
    found = run_of(opened, None if run is None else Run.of_facts(Path(run)))
    method = METHODS.find(found.config.strategy.name)
    about = {
        "folder": str(found.folder.resolve()),
        "method": found.config.strategy.name,
        "title": method.title,
        "remembers": bool(method.importance),
        "facts": [str(fact) for fact in known_facts(found)],
        "stages": found.finished_stages(),
        "search_stage": stage_of(opened, found),
        "metrics": _metrics(found),
    }
    return about, b""


def _metrics(run: "Run") -> dict[str, Any]:
    result = run.result()
    rules = result.final.rules
    lost = {rule: result.forgetting(rule) for rule in rules}
    return {
        "measure": result.measure,
        "tasks": result.tasks,
        "moments": result.moments,
        "whole": {rule: [_finite(value) for value in result.whole(rule)] for rule in rules},
        "matrix": {rule: [[_finite(value) for value in row] for row in result.matrix(rule)] for rule in rules},
        "forgetting": {rule: None if value is None else value.to_json() for rule, value in lost.items()},
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


@lru_cache(_MODELS)
def _model(folder: str, stage: int) -> Any:
    from factlearn.indexing.versions import version_of
    from factlearn.learning.results import load_model
    from factlearn.learning.runs import Run

    run = Run.of_facts(folder)
    model = load_model(run, stage)
    return model, version_of(run, model, stage)


def embed(folder: str, stage: int, path: str) -> tuple[Any, bytes]:
    """A picture's vector [3, D] as float32 bytes, and the version of the model that made it."""
    from factlearn.models.inference import embed_images

    model, version = _model(folder, stage)
    vectors, _ = embed_images(model, [Path(path)], batch_size=1)
    return {"shape": list(vectors[0].shape), "version": asdict(version)}, vectors[0].astype("<f4").tobytes()


def warm(folder: str, stage: int) -> tuple[Any, bytes]:
    """Load a model before the first picture waits for it."""
    _model(folder, stage)
    return None, b""


def work(connection: Connection) -> None:
    """The worker's whole life."""
    lower_priority()
    serve_operations(connection, {"describe": describe, "embed": embed, "warm": warm})
