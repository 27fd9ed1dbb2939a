"""Processes that do what may hang, crash or be attacked, and that can be killed: one request at a time each.

Requests and answers are JSON with raw bytes behind it, never pickles: what a picture has taken over must not be able to
take over the service. An answer is {"error": [kind, sentence]} or {"value": ...}.
"""

import asyncio
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from factlearn import errors
from factlearn.errors import FactlearnError
from factlearn.server.metrics import Metrics
from factlearn.server.problems import busy

Operation = Callable[..., tuple[Any, bytes]]
_GRACE = 5.0


class TooSlow(Exception):
    """A request that was not answered in time; its worker was killed."""


class Crashed(Exception):
    """A request whose worker died of it."""


def serve_operations(connection: Connection, operations: dict[str, Operation]) -> None:
    """Answer requests until the other end is gone; runs in the worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which ends its workers itself
    while True:
        try:
            raw = connection.recv_bytes()
        except (EOFError, OSError):
            return
        request = json.loads(raw)
        body = b""
        try:
            value, body = operations[request["operation"]](**request["arguments"])
            answer: dict[str, Any] = {"value": value}
        except FactlearnError as error:
            answer = {"error": [type(error).__name__, str(error)]}
        except MemoryError:
            answer = {"error": ["ImageError", "The image does not fit into memory."]}
        except Exception as error:
            answer = {"error": ["FactlearnError", f"{type(error).__name__}: {error}"]}
        try:
            connection.send_bytes(json.dumps(answer, allow_nan=False).encode())
            connection.send_bytes(body)
        except OSError:
            return


class Worker:
    """One process; `call` blocks, so it belongs in a thread."""

    def __init__(self, target: Callable[[Connection], None], name: str) -> None:
        self._target = target
        self._name = name
        self._process: Any = None
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._closed = False

    def start(self) -> None:
        """Have the process running."""
        if self._closed:
            raise Crashed(f"{self._name} is closed")
        if self._process is not None and self._process.is_alive():
            return
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=self._target, args=(theirs,), name=self._name, daemon=True)
        process.start()
        theirs.close()
        self._process, self._connection = process, ours
        if self._closed:  # meanwhile
            self._kill()
            raise Crashed(f"{self._name} is closed")

    def call(self, operation: str, arguments: dict[str, Any], seconds: float) -> tuple[Any, bytes]:
        """What the worker answers.

        Raises:
            TooSlow: if it takes longer; the process is killed.
            Crashed: if the process dies.
            FactlearnError: the error of the operation.
        """
        with self._lock:
            self.start()
            connection = self._connection
            assert connection is not None
            try:
                connection.send_bytes(json.dumps({"operation": operation, "arguments": arguments}).encode())
                if not connection.poll(seconds):
                    self._kill()
                    raise TooSlow(f"It took longer than {seconds:g} s")
                answer, body = json.loads(connection.recv_bytes()), connection.recv_bytes()
            except (EOFError, OSError) as error:
                self._kill()
                raise Crashed(f"{self._name} died") from error
        if "error" in answer:
            kind, sentence = answer["error"]
            raise getattr(errors, kind, FactlearnError)(sentence)
        return answer["value"], body

    @property
    def pid(self) -> int | None:
        """The process, if it runs."""
        return None if self._process is None else self._process.pid

    def _kill(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.join(_GRACE)
        self._process = self._connection = None

    def close(self) -> None:
        """End the process, whatever it does."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()
            process.join(_GRACE)


class WorkerPool:
    """Several equal workers, and a bounded number of requests waiting for one."""

    def __init__(
        self, target: Callable[[Connection], None], name: str, count: int, waiting: int, metrics: Metrics
    ) -> None:
        self.name = name
        self._workers = [Worker(target, f"factlearn-{name}-{number}") for number in range(count)]
        self._idle = list(self._workers)
        self._free = asyncio.Semaphore(count)
        self._threads = ThreadPoolExecutor(count, f"factlearn-{name}")
        self._most = count + waiting
        self._inside = 0
        self._metrics = metrics

    def start(self) -> None:
        """Start the processes in the background."""
        for worker in self._workers:
            self._threads.submit(worker.start)

    async def call(self, operation: str, seconds: float, **arguments: Any) -> tuple[Any, bytes]:
        """What a worker answers, when one is free.

        Raises:
            ServiceError: if too many wait already.
            TooSlow, Crashed, FactlearnError: see `Worker.call`.
        """
        if self._inside >= self._most:
            raise busy(f"Too many pictures are waiting ({self.name})", 2)
        self._inside += 1
        try:
            async with self._free:
                worker = self._idle.pop()
                try:
                    loop = asyncio.get_running_loop()
                    call = loop.run_in_executor(self._threads, worker.call, operation, arguments, seconds)
                    call.add_done_callback(_seen)
                    return await asyncio.shield(call)
                except TooSlow:
                    self._metrics.killed.inc()
                    raise
                finally:
                    self._idle.append(worker)  # its lock makes the next caller wait if this one gave up early
        finally:
            self._inside -= 1

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _seen(call: "asyncio.Future[Any]") -> None:
    """Look at the outcome of a call: its caller may have given up, above all when the service ends."""
    if not call.cancelled():
        call.exception()


def lower_priority(steps: int = 5) -> None:
    """Let queries go first; runs in a worker."""
    os.nice(steps)
