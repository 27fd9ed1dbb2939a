"""Embedding image files with a run's model; files that cannot be decoded are skipped, or refused all at once."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from factlearn.data.checking import check_readable
from factlearn.data.samples import Sample
from factlearn.errors import ImageError
from factlearn.indexing.versions import run_of, version_of
from factlearn.learning.results import load_model
from factlearn.learning.runs import Run
from factlearn.models.inference import embed_images, embed_inputs
from factlearn.models.inputs import open_inputs
from factlearn.models.network import TwoPartModel
from factlearn.progress import progress, say
from factlearn.retrieval import FactIndex, Version

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Embedder:
    """Embeds images with one model."""

    run: Run
    model: TwoPartModel[Any]
    stage: int
    skip_unreadable: bool = False
    batch_size: int = 64
    processes: int = 1

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
        try:
            if self.processes > 1 and len(samples) > self.processes:
                vectors, kept = self._in_processes(paths)
            else:
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
            with progress("embedding images", len(paths)) as advance:
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

    def _in_processes(self, paths: Sequence[Path]) -> tuple[Vectors, list[int]]:
        import multiprocessing

        cuts = np.array_split(np.arange(len(paths)), self.processes)
        with ProcessPoolExecutor(self.processes, multiprocessing.get_context("spawn")) as pool:
            parts = [
                pool.submit(
                    embed_share,
                    self.run.folder,
                    self.stage,
                    [paths[place] for place in cut],
                    self.skip_unreadable,
                    self.batch_size,
                    self.processes,
                )
                for cut in cuts
            ]
            found = [part.result() for part in parts]
        kept = [int(cut[place]) for cut, (_, places) in zip(cuts, found, strict=True) for place in places]
        return np.concatenate([vectors for vectors, _ in found]), kept


def embed_share(
    folder: Path, stage: int, paths: Sequence[Path], skip_unreadable: bool, batch_size: int, processes: int
) -> tuple[Vectors, list[int]]:
    """One process's share of the images, embedded."""
    import torch

    torch.set_num_threads(max(1, torch.get_num_threads() // processes))
    run = Run.open(folder)
    return Embedder(run, load_model(run, stage), stage, skip_unreadable, batch_size).embed_here(paths)
