"""Everything one service holds: its indexes, lanes, workers, jobs; handed to endpoints by the app's state."""

import asyncio
import json
import logging
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from factlearn.errors import FactlearnError
from factlearn.server import decoding, embedding
from factlearn.server.catalog import Catalog, Served
from factlearn.server.jobs import Jobs
from factlearn.server.lanes import Lane
from factlearn.server.metrics import Metrics
from factlearn.server.security import Doorkeeper
from factlearn.server.settings import Settings
from factlearn.server.thumbnails import Thumbnails
from factlearn.server.uploads import Uploads
from factlearn.server.workers import WorkerPool
from factlearn.server.writing import Writers

_DESCRIBE_SECONDS = 120.0
_ASK_AGAIN = 60.0  # seconds after which to look again for a run that was not found
_THREADS = 2
log = logging.getLogger("factlearn.server")


class Service:
    """The state of a running service."""

    def __init__(self, settings: Settings) -> None:
        limits = settings.limits
        self.settings = settings
        self.metrics = Metrics()
        self.doorkeeper = Doorkeeper(settings)
        self.stopping = asyncio.Event()
        self.sweeps = Lane("sweep", _THREADS, limits.waiting_queries)
        self.reads = Lane("read", 1, 64)
        self.others = Lane("search", 2, 128)
        self.watching = Lane("watch", 1, 16)
        self.catalog = Catalog(settings, self.sweeps, self.metrics)
        self._spool = tempfile.TemporaryDirectory(prefix="factlearn-serve-")
        self.spool = Path(self._spool.name)
        self.decoders = WorkerPool(decoding.work, "decode", 2, 4 * limits.waiting_uploads, self.metrics)
        self.embedders = WorkerPool(embedding.work, "embed", settings.workers, limits.waiting_uploads, self.metrics)
        self.thumbnails = Thumbnails(self.decoders, limits)
        self.uploads = Uploads(self.decoders, self.embedders, self.spool, limits)
        self.writers = Writers(settings, self.metrics)
        self.jobs = Jobs(limits.jobs, self.spool, self.metrics)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Open the indexes; workers and what runs tell follow in the background."""
        await self.watching.run(self.catalog.open)
        self.decoders.start()
        works = (self._watch(), self._describe(), self._warm())
        self._tasks = [asyncio.create_task(work) for work in works]

    async def _watch(self) -> None:
        while not self.stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), self.settings.refresh_seconds)
            await self.watching.run(self.catalog.look)

    async def _warm(self) -> None:
        for served in self.catalog.indexes.values():
            if served.snapshot is not None:
                with suppress(FactlearnError):
                    await self.reads.run(served.snapshot.warm)

    async def _describe(self) -> None:
        """Find the run behind each index, and load its model; again when a newer model has written to the index."""
        while not self.stopping.is_set():
            for served in list(self.catalog.indexes.values()):
                if self._is_described(served):
                    continue
                try:
                    await self.describe(served)
                    if served.run is not None:
                        place = {"folder": served.run["folder"], "stage": served.run["search_stage"]}
                        await self.embedders.call("warm", self.settings.limits.embed_seconds, **place)
                except Exception as error:  # an index without a run can still be searched
                    log.warning(json.dumps({"index": served.name, "run": str(error)}))
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), self.settings.refresh_seconds)

    def _is_described(self, served: Served) -> bool:
        """Whether there is nothing to ask about the run behind an index; if there is, it counts as asked from now."""
        snapshot, (model, asked) = served.snapshot, served.described
        if snapshot is None or (self.settings.run is None and not served.knows_run):
            return True
        now = time.monotonic()
        if model == snapshot.index.model and (served.run is not None or now - asked < _ASK_AGAIN):
            return True
        served.described = (snapshot.index.model, now)
        return False

    async def describe(self, served: Served) -> None:
        """Ask the embedding worker about the run behind an index."""
        run = None if self.settings.run is None else str(self.settings.run)
        found, _ = await self.embedders.call("describe", _DESCRIBE_SECONDS, index=served.address, run=run)
        taken = {each.run_name: each.run["folder"] for each in self.catalog.indexes.values() if each.run}
        parts = Path(found["folder"]).parts
        for length in range(1, len(parts)):
            name = "-".join(parts[-length:])
            if taken.get(name, found["folder"]) == found["folder"]:
                served.run, served.run_name = found, name
                return

    async def stop(self) -> None:
        """Finish writes under way; end everything else."""
        self.stopping.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.jobs.close()
        self.decoders.close()
        self.embedders.close()
        for lane in (self.sweeps, self.reads, self.others, self.watching, self.writers.lane):
            await asyncio.to_thread(lane.close)
        self._spool.cleanup()


async def service_of(request: Request) -> Service:
    """The service that a request belongs to."""
    found: Service = request.app.state.service
    return found


TheService = Annotated[Service, Depends(service_of)]
