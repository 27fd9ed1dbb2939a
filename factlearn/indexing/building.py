"""Building fact indexes with a run's model, and adding images to them."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factlearn.data.registry import open_facts
from factlearn.data.rows import MANIFEST_SUFFIXES
from factlearn.data.samples import FactDataset, Sample
from factlearn.errors import DatasetError, FactIndexError, ImageError
from factlearn.facts import Fact
from factlearn.files import sha256_file
from factlearn.learning.results import load_model
from factlearn.learning.runs import Run
from factlearn.models.inference import embed_images, embed_inputs
from factlearn.models.inputs import open_inputs
from factlearn.models.network import TwoPartModel
from factlearn.progress import progress, say
from factlearn.retrieval import FactIndex, Version

OWN_IMAGES = ("test", "train", "all")
_COMMIT_EVERY = 4096


def open_images(run: Run, images: str) -> FactDataset:
    """The images to index: the run's own (`test`, `train`, `all`), a folder, a manifest, or one image."""
    if images in OWN_IMAGES:
        dataset: FactDataset = open_facts(run.config.data, run.config.seed)
        return dataset if images == "all" else dataset.of_split(images)
    path = Path(images).expanduser()
    if path.is_dir():
        from factlearn.data.unlabelled import folder_dataset

        return folder_dataset(path)
    if path.suffix.lower() in MANIFEST_SUFFIXES:
        from factlearn.data.manifest import read_manifest

        return read_manifest(path)
    if path.is_file():
        return FactDataset(path.parent.resolve().name, (Sample(path.name, path),))
    raise DatasetError(f"There is no folder {images}; give a folder, a manifest, or one of {', '.join(OWN_IMAGES)}.")


def version_of(run: Run, model: TwoPartModel[Any], stage: int) -> Version:
    """How an index names the model that a stage left."""
    first = run.stage(1)["model_fingerprint"]
    return Version(model.fingerprint(), first, str(run.folder.resolve()), stage)


def known_facts(run: Run) -> list[Fact]:
    """The facts of all tasks of a run, so that plain words of those not learned yet are read too."""
    return [fact for task in run.tasks().tasks for fact in task.facts]


def build_index(
    run: Run,
    images: str,
    out: Path | str,
    *,
    stage: int | None = None,
    skip_unreadable: bool = False,
    overwrite: bool = False,
    batch_size: int = 64,
    processes: int = 1,
) -> FactIndex:
    """Embed images with the model a stage left (by default the last) and write an index of them.

    Args:
        processes: number of worker processes.

    Raises:
        ImageError: if an image cannot be decoded, unless `skip_unreadable`.
    """
    dataset = open_images(run.check_facts(), images)
    stage = run.finished_stages() if stage is None else stage
    model = load_model(run, stage)
    embedder = Embedder(run, model, stage, skip_unreadable, batch_size, processes)
    vectors, samples = embedder(dataset.samples, own=images in OWN_IMAGES)
    return FactIndex.create(
        out,
        vectors,
        [sample.id for sample in samples],
        language=run.language(),
        model=version_of(run, model, stage),
        known_facts=known_facts(run),
        overwrite=overwrite,
        **stored_columns(samples),
    )


def stored_columns(samples: Sequence[Sample]) -> dict[str, Any]:
    return {
        "paths": [sample.path for sample in samples],
        "facts": [sample.fact for sample in samples],
        "metadata": [_metadata(sample) for sample in samples],
        "files": [file_facts(sample.path) for sample in samples],
    }


def _metadata(sample: Sample) -> dict[str, str]:
    return {**({"split": sample.split} if sample.split else {}), **sample.metadata}


def file_facts(path: Path) -> dict[str, str]:
    """Size, mtime and hash, to detect changes."""
    status = path.stat()
    return {"bytes": str(status.st_size), "modified": str(status.st_mtime_ns), "sha256": sha256_file(path)}


@dataclass(frozen=True)
class Embedder:
    """Embeds images with one model; what cannot be decoded is refused or left out."""

    run: Run
    model: TwoPartModel[Any]
    stage: int
    skip_unreadable: bool = False
    batch_size: int = 64
    processes: int = 1

    def __call__(self, samples: Sequence[Sample], *, own: bool) -> tuple[NDArray[np.float32], list[Sample]]:
        paths = [sample.path for sample in samples]
        if own and self.run.config.model.keep_activations:
            return embed_inputs(self.model.suffix, open_inputs(self.model, paths), self.batch_size), list(samples)
        if self.processes > 1 and len(samples) > self.processes:
            vectors, kept = self._in_processes(paths)
        else:
            vectors, kept = self.embed_here(paths)
        return vectors, [samples[place] for place in kept]

    def embed_here(self, paths: Sequence[Path]) -> tuple[NDArray[np.float32], list[int]]:
        skipped: list[ImageError] = []
        with progress("embedding images", len(paths)) as advance:
            found = embed_images(
                self.model,
                paths,
                batch_size=self.batch_size,
                on_error=skipped.append if self.skip_unreadable else None,
                progress=advance,
            )
        for error in skipped:
            say(f"Skipped: {error}")
        return found

    def _in_processes(self, paths: Sequence[Path]) -> tuple[NDArray[np.float32], list[int]]:
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
) -> tuple[NDArray[np.float32], list[int]]:
    """One process's share of the images, embedded."""
    import torch

    torch.set_num_threads(max(1, torch.get_num_threads() // processes))
    run = Run.open(folder)
    return Embedder(run, load_model(run, stage), stage, skip_unreadable, batch_size).embed_here(paths)


def run_of(index: FactIndex, run: Run | None = None) -> Run:
    """The run that keeps an index up to date: the one given, or the one its newest vectors came from."""
    if run is not None:
        return run.check_facts()
    place = index.models[index.model].run
    if place is None:
        raise FactIndexError(f"{index.path} does not know which run made it; name it with --run.")
    return Run.of_facts(place)


@dataclass
class Added:
    """What adding images did."""

    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: int = 0
    skipped: int = 0


def add_images(
    index: FactIndex,
    images: str,
    run: Run | None = None,
    *,
    stage: int | None = None,
    skip_unreadable: bool = False,
    batch_size: int = 64,
    processes: int = 1,
) -> Added:
    """Add a folder's or manifest's images to an index; only what is new or changed is embedded.

    What is embedded is committed every few thousand images, so that an interruption loses little: adding the same
    images again continues from there.
    """
    run = run_of(index, run)
    index.check_language(run.language())
    dataset = open_images(run, images)
    stage = run.finished_stages() if stage is None else stage
    model = load_model(run, stage)
    version = version_of(run, model, stage)
    index.check_version(version)
    report = Added()
    fresh = _new_or_changed(index, dataset, report)
    facts, language = known_facts(run), run.language()
    embedder = Embedder(run, model, stage, skip_unreadable, batch_size, processes)
    for start in range(0, len(fresh), _COMMIT_EVERY):
        part = fresh[start : start + _COMMIT_EVERY]
        vectors, samples = embedder(part, own=images in OWN_IMAGES)
        report.skipped += len(part) - len(samples)
        index.add(
            vectors,
            [sample.id for sample in samples],
            model=version,
            known_facts=facts,
            language=language,
            **stored_columns(samples),
        )
    return report


def _new_or_changed(index: FactIndex, dataset: FactDataset, report: Added) -> list[Sample]:
    """The samples to embed, each under the id it has or is to have in the index."""
    items = index.items()
    by_path = {item["path"]: item for item in items}
    taken = {item["id"] for item in items}
    fresh = []
    for sample in dataset.samples:
        known = by_path.get(str(sample.path.absolute()))
        if known is None:
            fresh.append(_renamed(sample, _free_id(sample.id, dataset.name, taken)))
            report.new.append(fresh[-1].id)
        elif _is_changed(known, sample.path):
            fresh.append(_renamed(sample, known["id"]))
            report.changed.append(known["id"])
        else:
            report.unchanged += 1
    return fresh


def _renamed(sample: Sample, name: str) -> Sample:
    return Sample(name, sample.path, sample.fact, sample.split, sample.metadata)


def _free_id(name: str, folder: str, taken: set[str]) -> str:
    """The image's own id, or with its folder's name where another image has it."""
    chosen = name if name not in taken else f"{folder}/{name}"
    if chosen in taken:
        raise FactIndexError(f"The index holds another image called {chosen!r}; rename the folder {folder!r} first.")
    taken.add(chosen)
    return chosen


def _is_changed(item: Mapping[str, Any], path: Path) -> bool:
    """Whether a file differs from what was indexed; its content is read only if its size or time differ."""
    status = path.stat()
    if item["bytes"] == str(status.st_size) and item["modified"] == str(status.st_mtime_ns):
        return False
    return bool(item["sha256"] != sha256_file(path))


def embed_one(index: FactIndex, image: Path, run: Run | None = None) -> NDArray[np.float32]:
    """The vector [3, D] of an image, by the newest model that wrote to the index.

    Raises:
        FactIndexError: if the run's model is foreign to the index.
        ImageError: if the image cannot be decoded.
    """
    run = run_of(index, run)
    entry = index.models[index.model]
    stage = entry.stage if entry.run == str(run.folder.resolve()) else None
    stage = run.finished_stages() if stage is None else stage
    model = load_model(run, stage)
    index.check_version(version_of(run, model, stage))
    vectors, _ = embed_images(model, [image], batch_size=1)
    return vectors[0]  # type: ignore[no-any-return]
