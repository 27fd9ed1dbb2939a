"""Building a fact index from a run: the model embeds the images, the index keeps them."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from factlearn.assembly import make_preprocess, open_dataset
from factlearn.datasets.base import FactDataset
from factlearn.errors import DatasetError, ImageError
from factlearn.models.embedder import FactEmbedder
from factlearn.models.inference import embed_images
from factlearn.models.preprocess import PLAIN
from factlearn.progress import progress, say
from factlearn.results import load_model
from factlearn.retrieval.index import FactIndex
from factlearn.runs import Run
from factlearn.stages import run_inputs
from factlearn.training import embed_inputs

OWN_IMAGES = ("test", "train", "all")
_MANIFESTS = (".csv", ".tsv", ".jsonl", ".parquet")


def open_images(run: Run, images: str) -> FactDataset:
    """The images to index: the run's own (`test`, `train`, `all`), a folder, or a manifest."""
    if images in OWN_IMAGES:
        dataset = open_dataset(run.config.data)
        return dataset if images == "all" else dataset.of_split(images)
    path = Path(images).expanduser()
    if path.is_dir():
        from factlearn.datasets.folder import folder_dataset

        return folder_dataset(path)
    if path.suffix.lower() in _MANIFESTS:
        from factlearn.datasets.manifest import read_manifest

        return read_manifest(path)
    raise DatasetError(f"There is no folder {images}; give a folder, a manifest, or one of {', '.join(OWN_IMAGES)}.")


def build_index(
    run: Run,
    images: str,
    out: Path,
    *,
    stage: int | None = None,
    skip_unreadable: bool = False,
    overwrite: bool = False,
    batch_size: int = 64,
) -> FactIndex:
    """Embed images with the model a stage left (by default the last) and write an index of them.

    Raises:
        ImageError: if an image cannot be decoded, unless `skip_unreadable`.
    """
    dataset = open_images(run, images)
    model = load_model(run, stage)
    if images in OWN_IMAGES and run.config.model.keep_activations:
        inputs = run_inputs(run.config.model, model, [sample.path for sample in dataset.samples], (PLAIN,))
        vectors, kept = embed_inputs(model.suffix, inputs, batch_size), list(range(len(dataset)))
    else:
        vectors, kept = _embed(run, model, dataset, skip_unreadable, batch_size)
    samples = [dataset.samples[position] for position in kept]
    return FactIndex.create(
        out,
        vectors,
        [sample.id for sample in samples],
        paths=[sample.path for sample in samples],
        language=run.language(),
        model=model.fingerprint(),
        known_facts=[fact for task in run.tasks().tasks for fact in task.facts],
        facts=[sample.fact for sample in samples],
        metadata=[dict(sample.metadata) for sample in samples],
        overwrite=overwrite,
    )


def _embed(
    run: Run, model: FactEmbedder, dataset: FactDataset, skip_unreadable: bool, batch_size: int
) -> tuple[NDArray[np.float32], list[int]]:
    skipped: list[ImageError] = []
    with progress("embedding images", len(dataset)) as advance:
        embedded = embed_images(
            model,
            [sample.path for sample in dataset.samples],
            make_preprocess(run.config.model),
            batch_size=batch_size,
            on_error=skipped.append if skip_unreadable else None,
            progress=advance,
        )
    for error in skipped:
        say(f"Skipped: {error}")
    return embedded
