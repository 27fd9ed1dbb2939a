"""Requests that no one would send: made from the OpenAPI document by schemathesis, and malformed pictures."""

import itertools
import os
import random
from pathlib import Path

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.conftest import draw
from tests.server.conftest import make_plain
from tests.server.running import BEARER, service_process, wait_until

FEW, MANY = 100, int(os.environ.get("FACTLEARN_FUZZ_CASES", "20000"))
_GROWTH = 50_000_000


def resident(process):
    """The resident memory of a process in bytes."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def content_type(response):
    """The header, which schemathesis keeps as a list."""
    found = response.headers["content-type"]
    return found if isinstance(found, str) else found[0]


def check(response):
    """What must hold of every answer."""
    assert response.status_code < 500 or response.status_code == 503, (response.request.url, response.text)
    assert "Traceback" not in response.text[:10_000]
    assert "root:x:" not in response.text
    if response.status_code >= 400:
        assert content_type(response).startswith(("application/problem+json", "application/json"))


def fuzz(url, cases):
    """Send at least `cases` requests, spread over all operations; again with others where some have only a few."""
    schema = schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json")
    operations = [each.ok() for each in schema.get_all_operations()]
    operations = [each for each in operations if not each.path.endswith("/events")]
    sent, session = 0, requests.Session()  # one connection: much of the time would go into opening new ones
    for turn, operation in enumerate(itertools.cycle(operations)):
        if turn >= len(operations) and sent >= cases:
            break

        @seed(turn)
        @settings(
            max_examples=max(1, cases // len(operations)),
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def send(case):
            nonlocal sent
            sent += 1
            check(case.call(base_url=url, headers=BEARER, timeout=60, session=session))

        send()
    session.close()
    return sent


def malformed(whole, count):
    """Pictures with flipped, missing and repeated bytes."""
    pick = random.Random(0)
    for _ in range(count):
        content = bytearray(whole)
        for _ in range(pick.randint(1, 20)):
            place = pick.randrange(len(content))
            if pick.random() < 0.5:
                content[place] = pick.randrange(256)
            elif pick.random() < 0.5:
                del content[place : place + pick.randint(1, 200)]
            else:
                content[place:place] = content[place : place + pick.randint(1, 50)]
            if not content:
                content = bytearray(b"x")
        yield bytes(content)


def run(tmp_path, cases, pictures):
    """The number of requests sent, and by how much the memory of the service grew."""
    index = make_plain(tmp_path)
    draw(0, 1, tmp_path / "whole.png")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "token").touch()
    beside = {path for path in tmp_path.iterdir() if path != index.path}
    with service_process(index.path, tmp_path) as (process, url), httpx.Client(base_url=url, timeout=60) as http:
        fuzz(url, 200)  # imports and caches fill up
        before = resident(process.pid)
        sent = fuzz(url, cases)
        for content in malformed((tmp_path / "whole.png").read_bytes(), pictures):
            check(http.post("/api/v1/facts", files={"image": ("x.png", content)}))
            sent += 1
        assert http.get("/api/v1/search?q=%3Cdog%3E&k=1").json()["hits"]
        (spool,) = (tmp_path / "tmp").glob("factlearn-serve-*")
        wait_until(lambda: not any(spool.iterdir()))
        growth = resident(process.pid) - before
    assert {path for path in tmp_path.iterdir() if path != index.path} == beside
    assert not any((tmp_path / "tmp").iterdir())
    return sent, growth


def test_fuzzed_requests_never_break_the_service(tmp_path):
    sent, growth = run(tmp_path, FEW, 20)
    assert sent >= FEW
    assert growth < _GROWTH


@pytest.mark.slow
def test_many_fuzzed_requests_neither_break_the_service_nor_fill_its_memory(tmp_path):
    sent, growth = run(tmp_path, MANY, 500)
    print(f"{sent} requests, memory grew by {growth / 1e6:.1f} MB")
    assert sent >= MANY
    assert growth < _GROWTH
