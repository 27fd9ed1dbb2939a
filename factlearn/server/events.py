"""Server-sent events: a job's state whenever it changes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

from factlearn.server.jobs import Job

_PAUSE = 0.1  # seconds between events, so that quick steps do not become floods
_QUIET = 1.0  # seconds after which to look whether the service is ending
_BEAT = 15  # quiet looks between comments that keep proxies from closing the connection


async def job_events(job: Job, stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """One event per change, the present state first; ends with the job, or with the service."""
    seen, quiet = -1, 0
    while not stopping.is_set():
        if job.number != seen:
            seen, quiet = job.number, 0
            yield f"event: job\ndata: {json.dumps(job.to_json())}\n\n".encode()
            if job.is_over:
                return
            await asyncio.sleep(_PAUSE)
            continue
        with suppress(TimeoutError):
            async with asyncio.timeout(_QUIET), job.changed:
                while job.number == seen:
                    await job.changed.wait()
        quiet += 1
        if quiet % _BEAT == 0:
            yield b": still there\n\n"
