"""Importance jobs: progress as events, the outcome, cancelling."""

import json

import httpx
import pytest

from factlearn.learning.runs import Run
from factlearn.server.shapes.runs import Job
from tests.server.running import BEARER, wait_until


def events_of(running, job):
    """All events of a job, until the stream ends."""
    with httpx.stream("GET", f"{running.url}/api/v1/jobs/{job}/events", timeout=300) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: ")]
    return [Job(**json.loads(line)) for line in lines]


@pytest.mark.parametrize("source", ["facts", pytest.param("images", marks=pytest.mark.slow)])
def test_a_job_adapts_the_run_and_tells_what_is_held_more_firmly(photo_service, learned, source):
    hits = photo_service.get("/search", q="<person, riding, bike>", where="split = 'train'", k=4)["hits"]
    chosen = {"facts": ["<person, riding, *>"]} if source == "facts" else {"images": [hit["id"] for hit in hits]}
    started = photo_service.http.post("/api/v1/importance", json=chosen, headers=BEARER)
    assert started.status_code == 202
    job = Job(**started.json())
    assert started.headers["location"] == f"/api/v1/jobs/{job.id}"
    events = events_of(photo_service, job.id)
    last = events[-1]
    assert last.state == "done", last.error
    assert [event.state for event in events][-2:-1] != ["done"]
    assert max(event.total for event in events) > 0
    assert last == Job(**photo_service.get(f"/jobs/{job.id}"))

    adapted = Run.open(learned / "runs" / last.result.run)
    assert adapted.description()["adapted"]["stage"] == 2
    gains = [fact.after / fact.before for fact in last.result.facts]
    assert gains == sorted(gains, reverse=True)
    if source == "facts":
        held = {fact.fact: fact.after / fact.before for fact in last.result.facts}
        assert held["<person, riding, bike>"] > min(held.values())


def test_a_cancelled_job_leaves_nothing(photo_service, learned):
    before = sorted(path.name for path in (learned / "runs").iterdir())
    job = photo_service.post("/importance", 202, json={"facts": ["<person, riding, *>"]})
    wait_until(lambda: photo_service.get(f"/jobs/{job['id']}")["state"] != "queued")
    cancelled = photo_service.http.delete(f"/api/v1/jobs/{job['id']}", headers=BEARER).json()
    assert cancelled["state"] == "cancelled"
    assert events_of(photo_service, job["id"])[-1].state == "cancelled"
    assert sorted(path.name for path in (learned / "runs").iterdir()) == before


@pytest.mark.parametrize("asked", [{}, {"facts": ["<dog>"], "images": ["x"]}, {"facts": ["<a, b, c, d>"]}])
def test_what_to_remember_must_be_said(photo_service, asked):
    assert photo_service.http.post("/api/v1/importance", json=asked, headers=BEARER).status_code == 400
