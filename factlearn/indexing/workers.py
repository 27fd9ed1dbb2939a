"""Workers that embed images: processes on this machine, or Ray actors on many.

Chunks of images go out, and their vectors come back in the images' order. As many chunks are under way as keep every
worker busy, so that memory does not grow with the number of images. A worker that dies is replaced, and what it had is
given to another; embedding changes nothing but the result, so that doing it again is safe. Only the caller writes.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError, ImageError
from factlearn.learning.results import load_model
from factlearn.learning.runs import Run
from factlearn.lifelong.allocator import keep_freed_memory
from factlearn.models.inference import embed_images

Vectors = NDArray[np.float32]
_CHUNKS_EACH = 3
_BATCHES_EACH = 2
_TRIES = 4


@dataclass(frozen=True)
class Work:
    """How images are embedded: by the model that a stage of a run left."""

    folder: Path
    stage: int
    batch_size: int = 64
    threads: int = 1


@dataclass(frozen=True)
class Embedded:
    """Vectors of the images of a chunk that could be decoded, their places in it, and a sentence for each other one."""

    vectors: Vectors
    kept: list[int]
    problems: list[str]


class WorkerLost(Exception):
    """A worker died before it gave a result."""


class Workers(Protocol):
    """Something that embeds chunks of images at the same time."""

    @property
    def count(self) -> int: ...

    def submit(self, paths: Sequence[Path]) -> Any:
        """Begin with a chunk; what `result` takes."""

    def result(self, begun: Any) -> Embedded:
        """Wait for a chunk.

        Raises:
            WorkerLost: if its worker died; there is another one in its place.
        """

    def close(self) -> None:
        """End all workers."""


class Model:
    """A model in a worker."""

    def __init__(self, work: Work) -> None:
        import torch

        torch.set_num_threads(work.threads)
        keep_freed_memory()
        self.work = work
        self.model = load_model(Run.open(work.folder), work.stage)

    def embed(self, paths: Sequence[Path]) -> Embedded:
        """The vectors of a chunk."""
        problems: list[str] = []
        options = {"batch_size": self.work.batch_size, "on_error": lambda error: problems.append(str(error))}
        try:
            return Embedded(*embed_images(self.model, paths, **options), problems)  # type: ignore[arg-type]
        except ImageError:  # none of them
            return Embedded(np.empty((0, 0, 0), np.float32), [], problems)


class LocalWorkers:
    """Processes on this machine."""

    _model: Model  # in a worker: its own

    def __init__(self, count: int, work: Work) -> None:
        self.count = count
        self._work = work
        self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        import multiprocessing

        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.count, spawn, initializer=_load, initargs=(self._work,))

    def submit(self, paths: Sequence[Path]) -> tuple[ProcessPoolExecutor, Future[Embedded] | None]:
        """Begin with a chunk."""
        try:
            return self._pool, self._pool.submit(_embed, paths)
        except BrokenProcessPool:  # another chunk's worker has just died
            return self._pool, None

    def result(self, begun: tuple[ProcessPoolExecutor, Future[Embedded] | None]) -> Embedded:
        """Wait for a chunk; when a process dies, all of them are started again."""
        pool, future = begun
        try:
            if future is not None:
                return future.result()
        except BrokenProcessPool:
            pass
        if pool is self._pool:
            pool.shutdown(cancel_futures=True)
            self._pool = self._started()
        raise WorkerLost

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(cancel_futures=True)


def _load(work: Work) -> None:
    LocalWorkers._model = Model(work)


def _embed(paths: Sequence[Path]) -> Embedded:
    return LocalWorkers._model.embed(paths)


def embed_by(workers: Workers, paths: Sequence[Path], batch_size: int) -> Iterator[tuple[int, Embedded]]:
    """What the workers find, chunk by chunk in the images' order, each with the place of its first image.

    Raises:
        FactIndexError: if a chunk's worker dies again and again.
    """
    size = batch_size * _BATCHES_EACH
    chunks = ((start, paths[start : start + size]) for start in range(0, len(paths), size))
    pending: deque[tuple[int, Sequence[Path], Any]] = deque()
    for start, chunk in chunks:
        pending.append((start, chunk, workers.submit(chunk)))
        if len(pending) >= _CHUNKS_EACH * workers.count:
            yield _next(workers, pending)
    while pending:
        yield _next(workers, pending)


def _next(workers: Workers, pending: deque[tuple[int, Sequence[Path], Any]]) -> tuple[int, Embedded]:
    """Wait for the oldest chunk, and give it to another worker if its own is lost."""
    start, chunk, begun = pending.popleft()
    for _ in range(_TRIES):
        try:
            return start, workers.result(begun)
        except WorkerLost:
            begun = workers.submit(chunk)
    raise FactIndexError(
        f"Workers died {_TRIES} times at the {len(chunk)} images from {chunk[0]} to {chunk[-1]}; there may be too "
        "little memory for so many workers, or one of these images may be at fault."
    )
