"""A manifest made from a folder of photos whose folders are named for the facts they show.

The innermost folder of a photo names its fact; a folder `train` or `test`, above or below it, is its side.
"""

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from factlearn.data.checking import listed
from factlearn.data.folder_names import Words, read_name
from factlearn.data.rows import COLUMNS
from factlearn.data.samples import SPLITS
from factlearn.errors import DatasetError, FactError
from factlearn.facts import Fact
from factlearn.files import atomic_write
from factlearn.images import find_images

_SIDES = {"train": "train", "training": "train", "test": "test", "testing": "test"}


@dataclass
class NamedFolder:
    """A folder of photos.

    Attributes:
        name: its path below the folder that was read, without a side.
        fact: what its photos show; None if that cannot be told.
        problem: why its photos, or some of them, are left out.
        photos: those that are used, with their sides, which are empty where no folder names one.
    """

    name: str
    fact: Fact | None = None
    problem: str = ""
    photos: list[tuple[Path, str]] = field(default_factory=list)

    def count(self, side: str) -> int:
        """Number of photos on a side."""
        return sum(each == side for _, each in self.photos)


def read_folders(root: Path, words: Words) -> list[NamedFolder]:
    """The folders below a folder with the facts that their names state, by name.

    Raises:
        DatasetError: if there are no photos, or no name states a fact.
    """
    closed: list[NamedFolder] = []
    try:
        paths = find_images(root, on_error=lambda error: closed.append(_closed(root, error)))
    except DatasetError:
        if not closed:
            raise
        paths = []
    folders: dict[str, NamedFolder] = {}
    for path in paths:
        inside = path.relative_to(root).parts[:-1]
        sides = [_SIDES[part.lower()] for part in inside if part.lower() in _SIDES]
        name = "/".join(part for part in inside if part.lower() not in _SIDES)
        folder = folders.setdefault(name, NamedFolder(name))
        folder.photos.append((path, sides[-1] if sides else ""))
    for folder in folders.values():
        _understand(folder, words)
    _leave_out_sideless(list(folders.values()))
    found = sorted([*folders.values(), *closed, *_empty(root, paths)], key=lambda each: each.name)
    if not any(folder.photos for folder in found):
        problems = [f"{folder.name or root}: {folder.problem}" for folder in found]
        raise DatasetError(f"No folder in {root} is named for a fact, such as person_riding_horse:{listed(problems)}")
    return found


def _understand(folder: NamedFolder, words: Words) -> None:
    """Read the folder's name; what cannot be used is left out and says why."""
    if not folder.name:
        folder.photos, folder.problem = [], "no folder says what these photos show"
        return
    usable = [(path, side) for path, side in folder.photos if _is_text(str(path))]
    if len(usable) < len(folder.photos):
        folder.problem = f"{len(folder.photos) - len(usable)} file names are not Unicode text; rename the files"
    folder.photos = usable
    try:
        folder.fact = read_name(folder.name.rpartition("/")[2], words)
    except FactError as error:
        folder.photos, folder.problem = [], f"not read as a fact: {str(error).rstrip('.')}; rename the folder"


def _leave_out_sideless(folders: Sequence[NamedFolder]) -> None:
    """Where some photos have a side, those without one cannot be used."""
    if not any(side for folder in folders for _, side in folder.photos):
        return
    for folder in folders:
        left = folder.count("")
        if left:
            folder.photos = [(path, side) for path, side in folder.photos if side]
            what = "1 photo is" if left == 1 else f"{left} photos are"
            folder.problem = f"{what} in neither a train nor a test folder, unlike others; left out"


def _closed(root: Path, error: OSError) -> NamedFolder:
    return NamedFolder(Path(error.filename).relative_to(root).as_posix(), problem=f"cannot be read: {error.strerror}")


def _empty(root: Path, paths: Sequence[Path]) -> list[NamedFolder]:
    """The innermost folders that hold no photo."""
    used = {parent for path in paths for parent in path.parents}
    found = []
    for where, folders, _ in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        place = Path(where)
        if not folders and place not in used and place != root and os.access(place, os.R_OK):
            found.append(NamedFolder(place.relative_to(root).as_posix(), problem="holds no photos"))
    return found


def _is_text(name: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def write_manifest(folders: Sequence[NamedFolder], out: Path, *, overwrite: bool = False) -> None:
    """Write the photos as a CSV manifest, with a split if folders name one; paths are relative to it.

    Raises:
        DatasetError: if the file exists, unless it may be overwritten.
    """
    check_place(out, overwrite=overwrite)
    has_split = any(side in SPLITS for folder in folders for _, side in folder.photos)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([name for name in COLUMNS if has_split or name != "split"])
    for folder in folders:
        for path, side in folder.photos:
            assert folder.fact is not None
            units = (folder.fact.subject, folder.fact.predicate, folder.fact.object)
            place = Path(os.path.relpath(path, out.parent)).as_posix()
            writer.writerow([place, *([side] if has_split else []), *units])
    with atomic_write(out) as opened:
        opened.write(stream.getvalue())


def check_place(out: Path, *, overwrite: bool) -> None:
    """Refuse a place that is taken, or a name that is not that of a CSV file."""
    if out.suffix.lower() != ".csv":
        raise DatasetError(f"The manifest is written as CSV; give it a name that ends in .csv, not {out.name!r}.")
    if out.is_dir():
        raise DatasetError(f"{out} is a folder; name a file for the manifest.")
    if out.exists() and not overwrite:
        raise DatasetError(f"{out} exists already; choose another --out, or replace it with --overwrite.")
