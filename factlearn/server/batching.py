"""Queries that arrive together are answered together, in one sweep over the index.

Nobody waits for company: while one sweep runs, what arrives is collected, and the next sweep takes all of it. An idle
service therefore answers at once, and a busy one gains what `FactIndex.query_many` gains over single queries.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from factlearn.retrieval.hits import Hit
from factlearn.retrieval.sentences import Reading
from factlearn.server.lanes import Lane
from factlearn.server.metrics import Metrics
from factlearn.server.problems import busy
from factlearn.server.snapshots import Snapshot

Weights = tuple[float, ...] | None
_PAGES = (32, 128, 1024)  # queries for about as many images share a sweep; the largest page counts for all of them


@dataclass(frozen=True)
class _Waiting:
    snapshot: Snapshot
    reading: Reading
    k: int
    where: str | None
    weights: Weights
    answer: "asyncio.Future[list[Hit]]"

    @property
    def group(self) -> tuple[int, str | None, Weights, int]:
        """Queries of one group can be answered in one sweep."""
        page = next((most for most in _PAGES if self.k <= most), self.k)
        return id(self.snapshot), self.where, self.weights, page


class Batcher:
    """Collects queries of one index and answers them in sweeps."""

    def __init__(self, lane: Lane, sweeps: int, most: int, waiting: int, metrics: Metrics) -> None:
        self._lane = lane
        self._sweeps = sweeps
        self._most = most
        self._longest = waiting
        self._metrics = metrics
        self._waiting: deque[_Waiting] = deque()
        self._running: set[asyncio.Task[None]] = set()

    async def ask(
        self, snapshot: Snapshot, reading: Reading, k: int, where: str | None, weights: Weights
    ) -> Sequence[Hit]:
        """The k best images for a query of one fact.

        Raises:
            ServiceError: if too many wait already.
            FactlearnError: if the options make no sense.
        """
        if len(self._waiting) >= self._longest:
            raise busy("Too many queries are waiting")
        answer: asyncio.Future[list[Hit]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(snapshot, reading, k, where, weights, answer))
        self._start()
        return await answer

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._sweeps:
            task = asyncio.create_task(self._sweep(self._take()))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        self._start()

    def _take(self) -> list[_Waiting]:
        """The query that has waited longest, and those that can share its sweep."""
        group = self._waiting[0].group
        taken: list[_Waiting] = []
        left: deque[_Waiting] = deque()
        for each in self._waiting:
            same = len(taken) < self._most and each.group == group
            (taken if same else left).append(each)
        self._waiting = left
        return [each for each in taken if not each.answer.cancelled()]

    async def _sweep(self, taken: Sequence[_Waiting]) -> None:
        if not taken:
            return
        self._metrics.batch.observe(len(taken))
        try:
            found = await self._lane.run(_answer, taken)
        except BaseException as error:
            for each in taken:
                if not each.answer.done():
                    each.answer.set_exception(error)
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        for each, hits in zip(taken, found, strict=True):
            if not each.answer.done():
                each.answer.set_result(hits)


def _answer(taken: Sequence[_Waiting]) -> list[list[Hit]]:
    first = taken[0]
    most = max(each.k for each in taken)
    queries = [each.reading for each in taken]
    found = first.snapshot.index.query_many(queries, most, where=first.where, weights=first.weights)
    return [hits[: each.k] for each, hits in zip(taken, found, strict=True)]
