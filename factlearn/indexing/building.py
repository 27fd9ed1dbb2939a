"""Building fact indexes with a run's model, and adding images to them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factlearn import places
from factlearn.data.checking import check_readable, listed
from factlearn.data.rows import MANIFEST_SUFFIXES
from factlearn.data.samples import FactDataset, Sample
from factlearn.errors import DatasetError, FactIndexError, FactlearnError, ImageError
from factlearn.indexing.embedding import PIECE, Embedder
from factlearn.indexing.matching import FileFacts, Matched, file_facts, match
from factlearn.indexing.versions import known_facts, run_of, stage_of, version_of
from factlearn.indexing.workers import Vectors
from factlearn.learning.results import load_model
from factlearn.learning.runs import Run
from factlearn.models.inference import embed_images
from factlearn.retrieval import FactIndex, store_at

__all__ = ["Added", "add_images", "build_index", "embed_one", "open_images", "run_of"]

OWN_IMAGES = ("test", "train", "all")
_COMMIT_EVERY = PIECE


def open_images(run: Run, images: str) -> FactDataset:
    """The images to index: the run's own (`test`, `train`, `all`), a folder, tars, a manifest, or one image.

    A folder and an image may also lie in object storage.
    """
    if images in OWN_IMAGES:
        whole: FactDataset = run.data  # what was added to the run later included
        remaining = replace(whole, samples=tuple(run.images.remaining(whole.samples)))
        return remaining if images == "all" else remaining.of_split(images)
    from factlearn.data.unlabelled import folder_dataset, tars_dataset

    if tars := places.expand(images):
        return tars_dataset(tars)
    path = places.absolute(images)
    if places.holds_files(path):
        return folder_dataset(path)
    if path.suffix.lower() in MANIFEST_SUFFIXES:
        from factlearn.data.manifest import read_manifest

        return read_manifest(path)
    if places.is_file(path):
        return FactDataset(path.parent.resolve().name, (Sample(path.name, path),))
    raise DatasetError(f"There is no folder {images}; give a folder, a manifest, or one of {', '.join(OWN_IMAGES)}.")


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
    ray: str | None = None,
) -> FactIndex:
    """Embed images with a stage's model (by default the last) and write an index of them.

    Args:
        processes: number of worker processes.
        ray: the address of a Ray cluster whose actors embed, or `local`; then what they find is written as it comes.

    Raises:
        FactIndexError: if the place is taken, before anything is embedded.
        ImageError: if images cannot be decoded, listing them, unless `skip_unreadable`.
    """
    store_at(out).check_place(out, overwrite=overwrite)
    dataset = open_images(run.check_facts(), images)
    stage = run.finished_stages() if stage is None else stage
    embedder = Embedder(run, load_model(run, stage), stage, skip_unreadable, batch_size, processes, ray)
    own = images in OWN_IMAGES
    options = {"known_facts": known_facts(run), "language": run.language(), "overwrite": overwrite}
    if ray is not None:
        return _build_as_it_comes(embedder, dataset.samples, own, out, images, options)
    vectors, samples = embedder(dataset.samples, own=own)
    if not samples:
        check_readable([sample.path for sample in dataset.samples])
    return _create(embedder, vectors, samples, out, options)


def _create(
    embedder: Embedder, vectors: Vectors, samples: Sequence[Sample], out: Path | str, options: Mapping[str, Any]
) -> FactIndex:
    ids = [sample.id for sample in samples]
    return FactIndex.create(out, vectors, ids, model=embedder.version, **options, **stored_columns(samples))


def _build_as_it_comes(
    embedder: Embedder,
    samples: Sequence[Sample],
    own: bool,
    out: Path | str,
    images: str,
    options: Mapping[str, Any],
) -> FactIndex:
    """Write an index with the first few thousand images, and add the others to it.

    Raises:
        FactlearnError: saying how to continue, if something is written already.
    """
    commits = _commits(embedder, samples, own)
    first = next(commits, None)
    if first is None:
        check_readable([sample.path for sample in samples])
        raise DatasetError(f"There is no image to index in {images}.")
    index = _create(embedder, *first, out, options)
    try:
        _add(index, commits, embedder)
    except FactlearnError as error:
        raise FactIndexError(
            f"{error} {out} holds {len(index)} images; continue with `factlearn index add {out} {images}`."
        ) from error
    return index


def stored_columns(samples: Sequence[Sample], files: Mapping[Path, FileFacts] | None = None) -> dict[str, Any]:
    """What an index stores about images, besides ids and vectors."""
    return {
        "paths": [sample.path for sample in samples],
        "facts": [sample.facts for sample in samples],
        "metadata": [_metadata(sample) for sample in samples],
        "files": [files[sample.path] if files else file_facts(sample.path) for sample in samples],
    }


def _metadata(sample: Sample) -> dict[str, str]:
    return {**({"split": sample.split} if sample.split else {}), **sample.metadata}


def add_samples(
    index: FactIndex,
    samples: Sequence[Sample],
    embedder: Embedder,
    files: Mapping[Path, FileFacts] | None = None,
    *,
    own: bool = False,
) -> list[Sample]:
    """Embed images and add them, a few thousand per commit; returns those that could be decoded."""
    return _add(index, _commits(embedder, samples, own), embedder, files)


def _add(
    index: FactIndex,
    commits: Iterable[tuple[Vectors, list[Sample]]],
    embedder: Embedder,
    files: Mapping[Path, FileFacts] | None = None,
) -> list[Sample]:
    added: list[Sample] = []
    facts, language = known_facts(embedder.run), embedder.run.language()
    for vectors, kept in commits:
        if kept:
            index.add(
                vectors,
                [sample.id for sample in kept],
                model=embedder.version,
                known_facts=facts,
                language=language,
                **stored_columns(kept, files),
            )
        added += kept
    return added


def _commits(embedder: Embedder, samples: Sequence[Sample], own: bool) -> Iterator[tuple[Vectors, list[Sample]]]:
    """Embedded images, a few thousand at a time; of no more than that are vectors held."""
    waiting: list[tuple[Vectors, list[Sample]]] = []
    for piece in embedder.pieces(samples, own=own):
        waiting.append(piece)
        if sum(len(kept) for _, kept in waiting) >= _COMMIT_EVERY:
            yield _together(waiting)
            waiting = []
    if waiting:
        yield _together(waiting)


def _together(pieces: Sequence[tuple[Vectors, list[Sample]]]) -> tuple[Vectors, list[Sample]]:
    vectors = [part for part, kept in pieces if kept] or [pieces[0][0]]
    return np.concatenate(vectors), [sample for _, kept in pieces for sample in kept]


def rewrite_items(index: FactIndex, changes: Mapping[str, Mapping[str, str]]) -> None:
    """Change what an index knows about images, by id; their vectors stay."""
    if changes:
        index.store.rewrite(changes)
        index.reload()


@dataclass
class Added:
    """What adding images did; `moved` and `duplicates` were recognised by their content and not embedded."""

    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: int = 0
    moved: int = 0
    duplicates: int = 0
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
    ray: str | None = None,
) -> Added:
    """Add a folder's or manifest's images to an index; only new or changed ones are embedded.

    An image that has moved since it was indexed keeps its vector, and a copy of an indexed image is not added again.
    What is embedded is committed every few thousand images, so that an interruption loses little: adding the same
    images again continues from there.

    Raises:
        ImageError: if images cannot be decoded, listing them, unless `skip_unreadable`.
    """
    options = {
        "skip_unreadable": skip_unreadable, "batch_size": batch_size, "processes": processes, "ray": ray
    }  # fmt: skip
    embedder = Embedder.following(index, run, stage, **options)
    own = images in OWN_IMAGES
    dataset = open_images(embedder.run, images)
    matched = match(index.items(), dataset.samples, dataset.name, allow_duplicates=own)
    _refuse_failed(matched)
    paths = {sample.path for sample in matched.fresh}
    several_commits = bool(matched.rewrites) or len(matched.fresh) > _COMMIT_EVERY
    if several_commits and not skip_unreadable and ray is None:
        check_readable(sorted(paths | matched.copies(paths)))  # before the first of them
    rewrite_items(index, matched.rewrites)
    try:
        added = add_samples(index, matched.fresh, embedder, matched.files, own=own)
    except ImageError:
        check_readable(sorted(paths | matched.copies(paths)))  # names the copies, too
        raise
    return _added(matched, added)


def _refuse_failed(matched: Matched) -> None:
    if matched.failed:
        problems = [f"{path}: {reason}" for path, reason in matched.failed.items()]
        raise FactIndexError(f"{len(problems)} files cannot be read:{listed(problems)}")


def _added(matched: Matched, embedded: Iterable[Sample]) -> Added:
    ids = {sample.id for sample in embedded}
    skipped = [sample for sample in matched.fresh if sample.id not in ids]
    copies = len(matched.copies(sample.path for sample in skipped))
    return Added(
        [sample.id for sample in matched.new if sample.id in ids],
        [sample.id for sample in matched.changed if sample.id in ids],
        len(matched.unchanged),
        len(matched.moved),
        len(matched.duplicates) - copies,
        len(skipped) + copies,
    )


def embed_one(index: FactIndex, image: Path, run: Run | None = None) -> NDArray[np.float32]:
    """The vector [3, D] of an image, by the newest model that wrote to the index.

    Raises:
        FactIndexError: if the run's model is foreign to the index.
        ImageError: if the image cannot be decoded.
    """
    run = run_of(index, run)
    stage = stage_of(index, run)
    model = load_model(run, stage)
    index.check_version(version_of(run, model, stage))
    vectors, _ = embed_images(model, [image], batch_size=1)
    return vectors[0]  # type: ignore[no-any-return]
