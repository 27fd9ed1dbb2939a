"""What indexes answer, as plain JSON values in the shapes that `shapes/` describes."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from factlearn.facts import UNIT_NAMES, Fact, FactQuery, Vocabulary
from factlearn.retrieval.hits import Hit
from factlearn.retrieval.hits import ShownFact as Shown
from factlearn.retrieval.items import facts_of, metadata_of
from factlearn.retrieval.sentences import Reading
from factlearn.retrieval.verdicts import Verdict, verdict


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response, without the detour through pydantic that every hit would take."""
    body = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    content = body.encode("utf-8", "replace")
    return Response(content, status, dict(headers or {}), "application/json")


def asked(query: FactQuery) -> dict[str, Any]:
    """One fact that was asked for."""
    units = dict(zip(UNIT_NAMES, [*query.units, None, None, None], strict=False))
    return {"fact": str(query), **units}


def understood(reading: Reading, notes: Sequence[str] = ()) -> dict[str, Any]:
    """How a text was read, with more to note about it."""
    return {
        "text": reading.text,
        "query": asked(reading.query),
        **{name: [asked(each) for each in getattr(reading, name)] for name in ("also", "without", "any_of")},
        "notes": [*reading.notes, *notes],
        "alternatives": [asked(each) for each in reading.alternatives],
    }


def thumb_of(index: str, image: str) -> str:
    """The address of an image's thumbnail."""
    return f"/api/v1/images/{quote(image, safe='')}/thumb?index={quote(index, safe='')}"


class HitWriter:
    """Turns hits into JSON; labels are judged once per fact."""

    def __init__(self, index: str, *, paths: bool, reading: Reading | None = None, known: Vocabulary | None = None):
        self._index = index
        self._paths = paths
        self._reading = reading
        self._known = known
        self._verdicts: dict[tuple[Fact, ...], Verdict] = {}

    def __call__(self, hits: Sequence[Hit]) -> list[dict[str, Any]]:
        """The hits in order."""
        return [self._one(hit) for hit in hits]

    def _one(self, hit: Hit) -> dict[str, Any]:
        return {
            "id": hit.id,
            "name": hit.path.name,
            "path": str(hit.path) if self._paths else None,
            "score": hit.score,
            "scores": dict(hit.scores),
            "probability": _probability(hit),
            "fact": None if hit.fact is None else str(hit.fact),
            "labels": [str(fact) for fact in hit.facts],
            "right": self._right(hit.facts),
            "metadata": dict(hit.metadata),
            "model": hit.model,
            "thumb": thumb_of(self._index, hit.id),
        }

    def _right(self, labels: tuple[Fact, ...]) -> Verdict:
        if self._reading is None or not labels:
            return None
        if labels not in self._verdicts:
            self._verdicts[labels] = verdict(labels, self._reading, self._known)
        return self._verdicts[labels]


def shown(facts: Sequence[Shown]) -> list[dict[str, Any]]:
    """The facts that an image shows."""
    return [{"fact": str(one.fact), "score": one.score, "probability": _probability(one)} for one in facts]


def _probability(found: Any) -> float | None:
    """Calibrated, where the index can tell."""
    value = getattr(found, "probability", None)
    return None if value is None or not math.isfinite(value) else float(value)


def image_info(index: str, item: Mapping[str, Any], *, paths: bool) -> dict[str, Any]:
    """What an index knows about an image."""
    size = item.get("bytes")
    return {
        "id": item["id"],
        "name": PurePath(item["path"]).name,
        "path": item["path"] if paths else None,
        "fact": item["fact"],
        "labels": [str(fact) for fact in facts_of(item)],
        "metadata": metadata_of(item),
        "model": item.get("model") or "",
        "bytes": int(size) if size and str(size).isdigit() else None,
        "thumb": thumb_of(index, item["id"]),
    }
