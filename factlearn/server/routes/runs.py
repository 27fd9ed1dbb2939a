"""Runs and what they achieved, and jobs: importance, and the search structure of an index."""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.responses import Response, StreamingResponse

from factlearn.errors import FactError
from factlearn.facts import FactQuery
from factlearn.server.answers import json_response
from factlearn.server.catalog import Served
from factlearn.server.events import job_events
from factlearn.server.problems import ServiceError, responses
from factlearn.server.service import Service, TheService
from factlearn.server.shapes.runs import ImportanceRequest, Job, JobsAnswer, OptimizeRequest, RunMetrics, RunsAnswer

router = APIRouter(tags=["runs"], responses=responses(409))
JobId = Annotated[str, Path(max_length=40)]


def _runs(service: Service) -> dict[str, list[Served]]:
    found: dict[str, list[Served]] = {}
    for served in service.catalog.indexes.values():
        if served.run_name is not None:
            found.setdefault(served.run_name, []).append(served)
    return found


def _about(served: Served) -> dict[str, Any]:
    if served.run is None:
        raise ServiceError(409, f"The run that made {served.name} is not known (yet); name it with --run.")
    return served.run


@router.get("/runs", response_model=RunsAnswer, summary="The runs behind the indexes")
async def runs(service: TheService) -> Response:
    """Each run with its method, its tasks and the indexes that its models made."""
    found = []
    for name, behind in _runs(service).items():
        run = _about(behind[0])
        about = {"name": name, "method": run["method"], "title": run["title"], "remembers": run["remembers"]}
        tasks = {"tasks": run["metrics"]["tasks"], "stages": run["stages"]}
        found.append({**about, **tasks, "indexes": [served.name for served in behind]})
    return json_response({"runs": found})


@router.get("/runs/{name}/metrics", response_model=RunMetrics, summary="What a run achieved after each task")
async def run_metrics(service: TheService, name: Annotated[str, Path(max_length=500)]) -> Response:
    """MAP over everything and of each task, after each stage, under both rules of relevance."""
    known = _runs(service)
    if name not in known:
        raise ServiceError(404, f"There is no run {name!r} here; there are {', '.join(known) or 'none'}.")
    return json_response({"run": name, **_about(known[name][0])["metrics"]})


@router.post("/importance", status_code=202, response_model=Job, summary="Remember these (token)")
async def importance(service: TheService, asked: ImportanceRequest) -> Response:
    """Start a job that adapts the run behind an index to facts or images, as a new run next to it."""
    if bool(asked.facts) == bool(asked.images):
        raise FactError("Say what must not be forgotten: either facts or images.")
    served = service.catalog.find(asked.index)
    run = _about(served)
    if not run["remembers"]:
        raise ServiceError(409, f"{run['title']} cannot measure importance on images; serve a run of MAS, for example.")
    snapshot = served.current()
    patterns = [str(FactQuery.parse(text)) for text in asked.facts]
    paths = []
    for image in dict.fromkeys(asked.images):
        item = await service.others.run(snapshot.item, image)
        if item is None:
            raise ServiceError(404, f"The index holds no image {image!r}.")
        paths.append(item["path"])
    request = {"kind": "importance", "run": run["folder"], "facts": patterns, "images": paths}
    what = f"importance of {len(patterns)} facts" if patterns else f"importance of {len(paths)} images"
    job = service.jobs.start(request, what)
    return json_response(job.to_json(), 202, {"Location": f"/api/v1/jobs/{job.id}"})


@router.post("/optimize", status_code=202, response_model=Job, summary="Choose the fastest search (token)")
async def optimize(service: TheService, asked: OptimizeRequest) -> Response:
    """Start a job that merges the segments of an index and selects the fastest search structure for a recall."""
    served = service.catalog.find(asked.index)
    served.current()
    options = asked.model_dump(exclude={"index"}, exclude_none=True)
    job = service.jobs.start({"kind": "optimize", "index": served.address, "options": options}, "optimizing")
    return json_response(job.to_json(), 202, {"Location": f"/api/v1/jobs/{job.id}"})


@router.get("/jobs", response_model=JobsAnswer, summary="All jobs")
async def jobs(service: TheService) -> Response:
    """All jobs, newest first."""
    return json_response({"jobs": [job.to_json() for job in service.jobs.all()]})


@router.get("/jobs/{job}", response_model=Job, summary="A job")
async def one(service: TheService, job: JobId) -> Response:
    """The state and progress of a job."""
    return json_response(service.jobs.find(job).to_json())


@router.delete("/jobs/{job}", response_model=Job, summary="Cancel a job (token)")
async def cancel(service: TheService, job: JobId) -> Response:
    """Cancel a job; it leaves no partial output."""
    return json_response((await service.jobs.cancel(job)).to_json())


@router.get("/jobs/{job}/events", response_class=StreamingResponse, summary="A job as it goes on", responses={
    200: {"content": {"text/event-stream": {}}, "description": "One `job` event per change, until it is over."},
})  # fmt: skip
async def events(service: TheService, job: JobId) -> Response:
    """A job's progress as server-sent events; each contains the whole job."""
    found = service.jobs.find(job)
    return StreamingResponse(job_events(found, service.stopping), media_type="text/event-stream")
