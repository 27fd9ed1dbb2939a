"""Syncing an index with a folder: new images are added, changed ones updated, missing ones removed.

Everything is written through the store's own commits, in an order that a kill cannot harm: first the items of images
that moved, then new and changed images, last the removal of what is gone. Syncing again finishes the job.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from factlearn import places
from factlearn.data.checking import problems_of
from factlearn.data.samples import Sample
from factlearn.data.unlabelled import samples_below
from factlearn.errors import FactIndexError
from factlearn.images import find_images
from factlearn.indexing.building import add_samples, rewrite_items
from factlearn.indexing.embedding import Embedder
from factlearn.indexing.matching import Item, Matched, is_gone, match, place_of
from factlearn.learning.runs import Run
from factlearn.progress import say
from factlearn.retrieval import FactIndex

_FEW = 64


@dataclass(frozen=True)
class Synced:
    """What syncing found, in files: found = indexed + skipped + failed.

    Attributes:
        found: image files in the folder.
        new, changed: files that were embedded.
        moved: files that were recognised by their content; they keep their vectors.
        unchanged: files that were indexed already.
        duplicates: files with the content of another indexed file, which stands for them.
        skipped: files that cannot be decoded.
        failed: files that could not be read at all; what the index knows of them is kept.
        removed: images that were removed from the index, since their content is gone.
        images: images in the index now.
    """

    found: int
    new: int
    changed: int
    moved: int
    unchanged: int
    duplicates: int
    skipped: int
    failed: int
    removed: int
    images: int

    @property
    def indexed(self) -> int:
        """Files whose content the index holds."""
        return self.new + self.changed + self.moved + self.unchanged + self.duplicates

    def __str__(self) -> str:
        return (
            f"{self.found} found: {self.indexed} indexed ({self.new} new, {self.changed} changed, {self.moved} moved, "
            f"{self.unchanged} unchanged, {self.duplicates} duplicates), {self.skipped} skipped, {self.failed} failed; "
            f"{self.removed} removed; {self.images} images"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"indexed": self.indexed, **asdict(self)}


def sync(
    index: FactIndex,
    folder: Path | str,
    run: Run | None = None,
    *,
    stage: int | None = None,
    batch_size: int = 64,
    processes: int = 1,
    ray: str | None = None,
) -> Synced:
    """Bring the images of an index that came from a folder up to date with the folder.

    Files that cannot be read are named, one line each, and never stop the others. The model is loaded only if there is
    something to embed.

    Raises:
        DatasetError: if the folder is missing or holds no image; nothing is removed then.
        FactIndexError: if no image would be left, or the run's model is foreign to the index.
    """
    root = places.absolute(folder)
    closed: list[Path] = []
    paths = find_images(root, on_error=lambda error: _closed(error, closed))
    items = index.items()
    matched = match(items, samples_below(root, paths), root.name)
    for path, reason in matched.failed.items():
        say(f"Failed: {path}: {reason}.")
    gone = _gone(items, root, closed, {str(path) for path in paths}) | matched.outdated
    embedded: list[Sample] = []
    rewrite_items(index, matched.rewrites)
    if fresh := _worth_a_model(matched.fresh):
        options = {"skip_unreadable": True, "batch_size": batch_size, "processes": processes, "ray": ray}
        embedder = Embedder.following(index, run, stage, **options)
        embedded = add_samples(index, fresh, embedder, matched.files)
    gone -= {change.get("id", name) for name, change in matched.rewrites.items()}
    gone -= {sample.id for sample in embedded}
    removed = _remove(index, gone & set(index.ids), root)
    return _counted(paths, matched, embedded, removed, len(index))


def _worth_a_model(fresh: list[Sample]) -> list[Sample]:
    """Of a few images those that can be decoded, so that files which stay damaged do not load the model every night."""
    if len(fresh) > _FEW:
        return fresh
    problems = problems_of([sample.path for sample in fresh])
    for problem in filter(None, problems):
        say(f"Skipped: {problem}")
    return [sample for sample, problem in zip(fresh, problems, strict=True) if not problem]


def _closed(error: OSError, closed: list[Path]) -> None:
    """Note a folder that cannot be read: its images may still be there."""
    closed.append(Path(error.filename))
    say(f"Failed: the folder {error.filename}: {error.strerror}; its images are kept as they are.")


def _gone(items: Iterable[Item], root: Path, closed: Iterable[Path], found: set[str]) -> set[str]:
    """The images below a folder that are no longer there; a store's listing is all that says so of an object."""
    below = [item for item in items if Path(place_of(item)).is_relative_to(root)]
    inside = [item for item in below if (place_of(item) not in found if places.is_remote(root) else is_gone(item))]
    hidden = [*closed]
    return {item["id"] for item in inside if not any(Path(place_of(item)).is_relative_to(path) for path in hidden)}


def _remove(index: FactIndex, gone: set[str], root: Path) -> int:
    if not gone:
        return 0
    if len(gone) == len(index):
        raise FactIndexError(
            f"No image that {index.path} holds is readable in {root} any more; nothing was removed. "
            f"Restore the folder, or delete the index."
        )
    return index.remove(gone)


def _counted(paths: list[Path], matched: Matched, embedded: list[Sample], removed: int, images: int) -> Synced:
    """Every file counts once, under the first of these that fits."""
    done = {sample.path for sample in embedded}
    skipped = {sample.path for sample in matched.fresh} - done
    copies = matched.copies(skipped)
    kinds: dict[str, set[Path]] = {
        "failed": set(matched.failed),
        "skipped": skipped | copies,
        "changed": done & {sample.path for sample in matched.changed},
        "new": done,
        "moved": {sample.path for sample in matched.moved},
        "duplicates": {sample.path for sample in matched.duplicates},
        "unchanged": {sample.path for sample in matched.unchanged},
    }
    for path in sorted(copies):
        say(f"Skipped: {path} is a copy of another file that was skipped.")
    counts = dict.fromkeys(kinds, 0)
    for path in paths:
        counts[next(kind for kind, members in kinds.items() if path in members)] += 1
    return Synced(found=len(paths), removed=removed, images=images, **counts)
