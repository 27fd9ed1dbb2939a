"""Threads for work that must not stop the event loop; in lanes, so that one kind never waits for another."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from factlearn.server.problems import busy

T = TypeVar("T")


class Lane:
    """A few threads, and a bounded number of callers waiting for them."""

    def __init__(self, name: str, threads: int, waiting: int) -> None:
        self.name = name
        self._pool = ThreadPoolExecutor(threads, f"factlearn-{name}")
        self._most = threads + waiting
        self._inside = 0

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """The result of a function, worked out in the lane.

        Raises:
            ServiceError: if too many wait already.
        """
        if self._inside >= self._most:
            raise busy(f"Too many requests are waiting ({self.name})")
        self._inside += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
        future.add_done_callback(self._leave)  # also when the caller has given up: the thread is still busy
        return await asyncio.shield(future)

    def _leave(self, future: "asyncio.Future[T]") -> None:
        self._inside -= 1
        if not future.cancelled():
            future.exception()  # seen: a caller who gave up will not look

    def close(self) -> None:
        """Finish what runs; what waits is dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)
