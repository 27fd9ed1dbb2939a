"""What is served: indexes, vocabulary, facts, columns, stages; and whether all is well."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from factlearn import __version__
from factlearn.server import metrics, timetravel
from factlearn.server.answers import json_response
from factlearn.server.catalog import Served
from factlearn.server.problems import responses
from factlearn.server.routes.search import Question
from factlearn.server.security import COOKIE
from factlearn.server.service import TheService
from factlearn.server.shapes.indexes import (
    Alive,
    ColumnsAnswer,
    KnownFacts,
    Ready,
    Service,
    StagesAnswer,
    Verified,
    VocabularyAnswer,
)

router = APIRouter(tags=["indexes"], responses=responses())
health = APIRouter(tags=["health"])
IndexName = Annotated[str | None, Query(max_length=200)]


@router.get("", response_model=Service, summary="The service and its indexes")
async def service_info(service: TheService, request: Request) -> Response:
    """The served indexes, and what clients need; without the token, where reading needs one, only the latter."""
    limits = service.settings.limits
    stranger = service.doorkeeper.is_stranger(dict(request.scope["headers"]))
    return json_response({
        "version": __version__,
        "indexes": [] if stranger else [_info(served) for served in service.catalog.indexes.values()],
        "token_to_read": service.settings.token_to_read,
        "max_upload_bytes": limits.upload_bytes,
        "max_upload_pixels": limits.upload_pixels,
    })  # fmt: skip


def _info(served: Served) -> dict[str, Any]:
    snapshot = served.snapshot
    about = {"name": served.name, "ready": snapshot is not None, "reason": served.reason, "run": served.run_name}
    if snapshot is None:
        return about
    run = None if served.run is None else served.run["metrics"]
    return {
        **about,
        "images": len(snapshot.index),
        "facts": len(snapshot.index.facts),
        "dimension": snapshot.index.dimension,
        "models": len(snapshot.index.models),
        "stage": snapshot.stage,
        "stages": [
            {
                "stage": stage,
                "moment": timetravel.achieved(run, stage)["moment"],
                "index": each.name,
                "images": 0 if each.snapshot is None else len(each.snapshot.index),
                "ready": each.snapshot is not None,
            }
            for stage, each in served.stages.items()
        ],
        "writable": served.run is not None,
    }


@router.get("/vocabulary", response_model=VocabularyAnswer, summary="Known units, for completion")
async def vocabulary(
    service: TheService,
    index: IndexName = None,
    prefix: Annotated[str, Query(max_length=100)] = "",
    position: Literal["subject", "predicate", "object"] | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
) -> Response:
    """Units that start with a prefix (or contain a word that does), most images first."""
    served = service.catalog.find(index)
    snapshot = served.current()
    begun = " ".join(prefix.lower().split())
    units = await service.others.run(lambda: snapshot.units)
    found = [
        {"unit": unit, "position": at, "images": images, "facts": facts}
        for unit, at, images, facts in units
        if position in (None, at) and (unit.startswith(begun) or f" {begun}" in unit)
    ]
    return json_response({"index": served.name, "units": found[:limit]})


@router.get("/facts", response_model=KnownFacts, summary="Known facts")
async def facts(service: TheService, index: IndexName = None) -> Response:
    """The facts the index knows, with the number of images labelled with each."""
    served = service.catalog.find(index)
    snapshot = served.current()
    labels = await service.others.run(lambda: snapshot.labels)
    known = [{"fact": str(fact), "images": labels[fact]} for fact in snapshot.index.facts]
    return json_response({"index": served.name, "facts": known})


@router.get("/columns", response_model=ColumnsAnswer, summary="Columns to filter by, with their values")
async def columns(service: TheService, index: IndexName = None) -> Response:
    """The label, the model and all metadata, with the most frequent values."""
    served = service.catalog.find(index)
    snapshot = served.current()
    found = await service.others.run(lambda: snapshot.columns)
    return json_response({
        "index": served.name,
        "columns": [
            {
                "name": each.name,
                "metadata": each.metadata,
                "distinct": each.distinct,
                "numeric": each.numeric,
                "values": [{"value": value, "images": images} for value, images in each.values],
            }
            for each in found
        ],
    })  # fmt: skip


@router.get("/stages", response_model=StagesAnswer, summary="The models after each task")
async def stages(service: TheService, query: Annotated[Question, Query()]) -> Response:
    """The run's metrics after each task, and the query's average precision under each model."""
    served = service.catalog.find(query.index)
    snapshot, options = served.current(), query.options()
    options.check(snapshot)
    reading = await query.read(service, snapshot, query.q) if query.q else None
    return json_response(await service.others.run(timetravel.stages_of, served, reading, options))


@router.post("/verify", response_model=Verified, summary="Compare an index with its checksums (token)")
async def verify(service: TheService, index: IndexName = None) -> Response:
    """Check every file of the index; one sentence per damaged file, in which case the index stops being served."""
    served = service.catalog.find(index)
    return json_response({"index": served.name, "problems": await service.watching.run(served.problems)})


@router.post("/session", status_code=204, response_class=Response, summary="A cookie for reading (token)")
async def session(service: TheService, request: Request) -> Response:
    """Give a browser that has the token a read-only cookie."""
    value = service.doorkeeper.reader_cookie(request.headers.get("authorization", ""))
    response = Response(status_code=204)
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, value, httponly=True, samesite="strict", secure=secure, path="/")
    return response


@health.get("/healthz", response_model=Alive, summary="Whether the process answers")
async def healthz() -> Response:
    """Liveness: ok whenever the process answers."""
    return json_response({"status": "ok"})


@health.get("/readyz", response_model=Ready, summary="Whether indexes can be searched", responses={
    503: {"model": Ready, "description": "None of them can, or not the one asked for."},
})  # fmt: skip
async def readyz(service: TheService, index: IndexName = None) -> Response:
    """Readiness of each index, or why it cannot be searched; 503 if none can, or not the requested one."""
    asked = service.catalog.indexes if index is None else {index: service.catalog.find(index)}
    found = {name: {"ready": each.snapshot is not None, "reason": each.reason} for name, each in asked.items()}
    ready = any(each["ready"] for each in found.values())
    return json_response({"ready": ready, "indexes": found}, 200 if ready else 503)


@health.get("/metrics", response_class=Response, summary="For Prometheus")
async def prometheus(service: TheService) -> Response:
    """Counters in the text format of Prometheus."""
    return Response(service.metrics.page(), media_type=metrics.CONTENT_TYPE)
