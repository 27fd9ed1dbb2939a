"""Work in the background: each job is a process that reports progress and can be killed; one runs at a time."""

import asyncio
import json
import os
import secrets
import signal
import sys
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from factlearn.server.importance import clean_up
from factlearn.server.metrics import Metrics
from factlearn.server.problems import ServiceError, busy

_KEPT = 100
_COMMAND = "from factlearn.server.job_process import main; main()"
STATES = ("queued", "running", "done", "failed", "cancelled")
_LINE = 1 << 20


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Job:
    """A job's state; `changed` wakes those who watch it. Its request says which kind it is, see `job_process`."""

    request: dict[str, Any]
    what: str
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    state: str = "queued"
    done: int = 0
    total: int = 0
    created: str = field(default_factory=_now)
    finished: str | None = None
    error: str | None = None
    result: dict[str, Any] | None = None
    number: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition, repr=False)

    @property
    def is_over(self) -> bool:
        """Whether it will not change any more."""
        return self.state in ("done", "failed", "cancelled")

    def to_json(self) -> dict[str, Any]:
        """As clients see it."""
        names = ("id", "state", "what", "done", "total", "created", "finished", "error", "result")
        return {"kind": self.request["kind"], **{name: getattr(self, name) for name in names}}

    async def update(self, **values: Any) -> None:
        """Change it and wake those who watch."""
        async with self.changed:
            for name, value in values.items():
                setattr(self, name, value)
            self.number += 1
            self.changed.notify_all()


class Jobs:
    """All jobs since the service started."""

    def __init__(self, waiting: int, spool: Path, metrics: Metrics) -> None:
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._longest = waiting
        self._spool = spool
        self._metrics = metrics
        self._turn = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def all(self) -> list[Job]:
        """All jobs, newest first."""
        return list(reversed(self._jobs.values()))

    def find(self, name: str) -> Job:
        """A job by its id.

        Raises:
            ServiceError: if there is none.
        """
        if name not in self._jobs:
            raise ServiceError(404, "There is no such job; jobs are forgotten when the service ends.")
        return self._jobs[name]

    def start(self, request: dict[str, Any], what: str) -> Job:
        """Begin a job as soon as those before it are over.

        Raises:
            ServiceError: if too many wait already.
        """
        if len(self._tasks) >= self._longest:
            raise busy("Too many jobs are waiting", 30)
        job = Job(request, what)
        self._jobs[job.id] = job
        while len(self._jobs) > _KEPT:
            oldest = next((each for each in self._jobs.values() if each.is_over), None)
            if oldest is None:
                break
            del self._jobs[oldest.id]
        task = asyncio.create_task(self._run(job))
        self._tasks[job.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(job.id, None))
        return job

    async def cancel(self, name: str) -> Job:
        """End a job; what it was writing never appears."""
        job = self.find(name)
        task = self._tasks.get(job.id)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if not job.is_over:
            await job.update(state="cancelled", finished=_now())
        return job

    async def _run(self, job: Job) -> None:
        try:
            async with self._turn:
                await job.update(state="running")
                await self._follow(job)
        except asyncio.CancelledError:
            await job.update(state="cancelled", finished=_now())
        except Exception as error:
            await job.update(state="failed", error=f"{type(error).__name__}: {error}", finished=_now())
        finally:
            self._count()

    async def _follow(self, job: Job) -> None:
        """Run the job's process and take over what it prints: one JSON object per line."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _COMMAND,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True, limit=_LINE,
        )  # fmt: skip
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(job.request).encode())
            process.stdin.close()
            async for line in process.stdout:
                await job.update(**json.loads(line))
            code = await process.wait()
            if job.error is not None or job.result is None:
                await job.update(state="failed", error=job.error or f"It ended with code {code}.", finished=_now())
            else:
                await job.update(state="done", finished=_now())
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            if job.result is None and "run" in job.request:
                await asyncio.to_thread(clean_up, Path(job.request["run"]), process.pid)

    def _count(self) -> None:
        for state in STATES:
            self._metrics.jobs.labels(state).set(sum(job.state == state for job in self._jobs.values()))

    async def close(self) -> None:
        """End all jobs."""
        for name in list(self._tasks):
            await self.cancel(name)
