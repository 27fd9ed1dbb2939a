"""Images that are no longer where they were indexed: noticing it, and following a folder that moved."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from factlearn.errors import FactIndexError
from factlearn.files import sha256_file
from factlearn.indexing.building import rewrite_items
from factlearn.indexing.matching import Item, is_gone, place_of
from factlearn.progress import progress
from factlearn.retrieval import FactIndex


@dataclass(frozen=True)
class Relocated:
    """What relocating did.

    Attributes:
        relocated: how many images have their new paths.
        missing: new paths where there is no file; these images keep their old paths.
        different: new paths where the file has other content; likewise.
    """

    relocated: int
    missing: tuple[Path, ...] = ()
    different: tuple[Path, ...] = ()


def relocate(index: FactIndex, old: Path | str, new: Path | str) -> Relocated:
    """Rewrite the paths of images whose folder was moved, in one commit; their vectors and ids stay.

    Only images whose file is in the new folder with the same content are rewritten.

    Raises:
        FactIndexError: if the index has no images from the old folder, or none of them is in the new one.
    """
    source, target = (Path(os.path.abspath(Path(each).expanduser())) for each in (old, new))
    items = index.items()
    inside = [item for item in items if Path(place_of(item)).is_relative_to(source)]
    if not inside:
        raise FactIndexError(f"{index.path} has no images from {source}; its images are from {_folders(items)}.")
    if not target.is_dir():
        raise FactIndexError(f"There is no folder {target}; give the folder that {source} was moved to.")
    changes: dict[str, dict[str, str]] = {}
    missing, different = [], []
    with progress("comparing images", len(inside)) as advance:
        for item in inside:
            path = target / Path(place_of(item)).relative_to(source)
            if not path.is_file():
                missing.append(path)
            elif not _same(item, path):
                different.append(path)
            else:
                changes[item["id"]] = {"path": str(path), "modified": str(path.stat().st_mtime_ns)}
            advance(1)
    if not changes:
        raise FactIndexError(
            f"None of the {len(inside)} images from {source} is in {target} with the same content "
            f"(for example {(missing + different)[0]}); check both folders."
        )
    rewrite_items(index, changes)
    return Relocated(len(changes), tuple(missing), tuple(different))


def _same(item: Item, path: Path) -> bool:
    """Whether a file has the content that was indexed; an index without hashes trusts its name."""
    if not item["sha256"]:
        return True
    return bool(item["bytes"] == str(path.stat().st_size) and item["sha256"] == sha256_file(path))


def _folders(items: Iterable[Item], most: int = 3) -> str:
    """The folders that hold most images."""
    found = Counter(str(Path(item["path"]).parent) for item in items)
    names = [name for name, _ in found.most_common(most)]
    return ", ".join(names) + (", ..." if len(found) > most else "")


def gone_folders(items: Sequence[Item]) -> dict[Path, int]:
    """Folders of which every indexed image is gone, and how many images those are."""
    gone: dict[Path, int] = Counter()
    here: set[Path] = set()
    for item in items:
        path = Path(place_of(item))
        if is_gone(item):
            gone[_first_missing(path)] += 1
        else:
            here.update(path.parents)
    return {folder: count for folder, count in gone.items() if folder not in here}


def _first_missing(path: Path) -> Path:
    """The uppermost folder of a path that does not exist; its own folder if that does."""
    folder = path.parent
    while folder != folder.parent and not folder.parent.exists():
        folder = folder.parent
    return folder


def advice(index: FactIndex) -> list[str]:
    """One sentence for each folder that seems to have been moved."""
    return [
        f"All {count} images from {folder} are gone; if the folder was moved, run: "
        f"factlearn index relocate {index.path} {folder} NEW"
        for folder, count in gone_folders(index.items()).items()
    ]
