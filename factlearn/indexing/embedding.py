"""Embedding image files with a run's model; files that cannot be decoded are skipped, or refused all at once."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from factlearn.data.checking import check_readable
from factlearn.data.samples import Sample
from factlearn.errors import ImageError
from factlearn.indexing.versions import run_of, version_of
from factlearn.indexing.workers import LocalWorkers, Vectors, Work, Workers, embed_by
from factlearn.learning.results import load_model
from factlearn.learning.runs import Run
from factlearn.lifelong.allocator import freed_memory_kept
from factlearn.models.inference import embed_images, embed_inputs
from factlearn.models.inputs import open_inputs
from factlearn.models.network import TwoPartModel
from factlearn.progress import progress, say
from factlearn.retrieval import FactIndex, Version

PIECE = 4096
"""How many images are embedded before the next are thought of, where there are no workers."""


@dataclass(frozen=True)
class Embedder:
    """Embeds images with one model.

    Attributes:
        processes: number of workers; with Ray, 1 is as many as the cluster has devices.
        ray: the address of a Ray cluster, or `local`; None for processes on this machine.
    """

    run: Run
    model: TwoPartModel[Any]
    stage: int
    skip_unreadable: bool = False
    batch_size: int = 64
    processes: int = 1
    ray: str | None = None

    @classmethod
    def following(cls, index: FactIndex, run: Run | None, stage: int | None, **options: Any) -> Self:
        """Embeds with a run's newest model, or that of a stage, for an index.

        Raises:
            FactIndexError: if the run is not found, or its model is foreign to the index.
        """
        run = run_of(index, run)
        index.check_language(run.language())
        stage = run.finished_stages() if stage is None else stage
        embedder = cls(run, load_model(run, stage), stage, **options)
        index.check_version(embedder.version)
        return embedder

    @cached_property
    def version(self) -> Version:
        """How an index names the model."""
        return version_of(self.run, self.model, self.stage)

    def __call__(self, samples: Sequence[Sample], *, own: bool = False) -> tuple[Vectors, list[Sample]]:
        """Vectors of the images that can be decoded, and their samples.

        Args:
            own: these are the run's own images, whose activations it may keep.

        Raises:
            ImageError: listing every image that cannot be decoded, unless those are to be skipped.
        """
        paths = [sample.path for sample in samples]
        if own and self.run.config.model.keep_activations:
            return embed_inputs(self.model.suffix, open_inputs(self.model, paths), self.batch_size), list(samples)
        if self._shared(samples):
            pieces = list(self.pieces(samples))
            vectors = np.concatenate([part for part, _ in pieces]) if pieces else self._nothing()
            return vectors, [sample for _, part in pieces for sample in part]
        try:
            vectors, kept = self.embed_here(paths)
        except ImageError:
            if self.skip_unreadable:
                raise
            check_readable(paths)  # finds the others too
            raise
        return vectors, [samples[place] for place in kept]

    def embed_here(self, paths: Sequence[Path]) -> tuple[Vectors, list[int]]:
        """Vectors and positions of the images that can be decoded; each of the others is named in one line."""
        skipped: list[ImageError] = []
        try:
            with freed_memory_kept(), progress("embedding images", len(paths)) as advance:
                return embed_images(
                    self.model,
                    paths,
                    batch_size=self.batch_size,
                    on_error=skipped.append if self.skip_unreadable else None,
                    progress=advance,
                )
        except ImageError:
            if len(skipped) < len(paths):
                raise
            return self._nothing(), []
        finally:
            for error in skipped:
                say(f"Skipped: {error}")

    def _nothing(self) -> Vectors:
        return np.empty((0, 3, self.run.language().dimension), np.float32)

    def pieces(self, samples: Sequence[Sample], *, own: bool = False) -> Iterator[tuple[Vectors, list[Sample]]]:
        """What calling this gives, a part of the images at a time, in their order.

        Workers embed the next parts meanwhile.
        """
        kept = own and self.run.config.model.keep_activations
        if kept or not self._shared(samples):
            for start in range(0, len(samples), PIECE):
                yield self(samples[start : start + PIECE], own=own)
            return
        paths = [sample.path for sample in samples]
        with self._workers() as workers, progress("embedding images", len(paths)) as advance:
            for start, found in embed_by(workers, paths, self.batch_size):
                if found.problems and not self.skip_unreadable:
                    check_readable(paths)  # finds the others too
                    raise ImageError(found.problems[0])
                for problem in found.problems:
                    say(f"Skipped: {problem}")
                advance(len(found.kept) + len(found.problems))
                if found.kept:
                    yield found.vectors, [samples[start + place] for place in found.kept]

    def _shared(self, samples: Sequence[Sample]) -> bool:
        """Whether workers embed so many images."""
        return (self.ray is not None or self.processes > 1) and len(samples) > self.batch_size

    @contextmanager
    def _workers(self) -> Iterator[Workers]:
        import torch

        folder = self.run.folder.absolute()
        workers: Workers
        if self.ray is not None:
            from factlearn.indexing.ray_workers import RayWorkers

            count = self.processes if self.processes > 1 else None
            workers = RayWorkers(self.ray, Work(folder, self.stage, self.batch_size), count)
        else:
            threads = max(1, torch.get_num_threads() // self.processes)
            workers = LocalWorkers(self.processes, Work(folder, self.stage, self.batch_size, threads))
        try:
            yield workers
        finally:
            workers.close()
