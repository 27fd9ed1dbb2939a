"""The manifest of an index folder: which files make up its state, and what each must contain.

`index.json` is the only file of an index that is ever replaced, by a rename; all others are written once. The files it
names are the index. `index.copy.json` is written just before it, so that a damaged manifest can be restored.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError

from factlearn.errors import FactIndexError
from factlearn.files import json_text, sha256_file, write_json
from factlearn.retrieval.about import Entry, ModelEntry

FORMAT = "factlearn index"
VERSION = 2
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
MANIFEST, COPY = "index.json", "index.copy.json"


class OtherVersionError(FactIndexError):
    """An index of a format that this factlearn does not read."""


def _inside(path: str) -> str:
    """A path that stays inside the index: a manifest may come from a stranger."""
    if not all(_NAME.fullmatch(part) for part in path.split("/")):
        raise ValueError(f"{path!r} is no place inside an index")
    return path


def _name(name: str) -> str:
    """The name of a folder."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name in an index")
    return name


InsidePath = Annotated[str, AfterValidator(_inside)]
Name = Annotated[str, AfterValidator(_name)]


class FileEntry(Entry):
    """A file's size and hash."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, file: Path) -> "FileEntry":
        """The entry of a file as it is now."""
        return cls(bytes=file.stat().st_size, sha256=sha256_file(file))


class SegmentEntry(Entry):
    """A segment: images embedded by one model.

    Attributes:
        name: its folder under `segments/`.
        count: the number of images it holds, including removed ones.
        model: the fingerprint of the model.
        largest: the largest squared norm of each unit, for the bound on rounding.
        deleted: the folder under `deleted/` that says which images were removed, if any were.
        removed: the number of removed images.
        files: of the segment and of `deleted`, by path inside the index.
    """

    name: Name
    count: int = Field(ge=0)
    model: str
    largest: tuple[float, float, float]
    deleted: Name | None = None
    removed: int = Field(0, ge=0)
    files: dict[InsidePath, FileEntry]


class StructureEntry(Entry):
    """A search structure over some segments: their rows in order, compressed or linked.

    Attributes:
        name: its folder under `structures/`.
        kind: how it searches, such as `pq`.
        segments: the segments it covers, in order; others are swept exactly.
        settings: specific to the kind.
        measured: recall when it was chosen.
    """

    name: Name
    kind: str
    segments: tuple[str, ...]
    settings: dict[str, Any]
    measured: dict[str, float]
    files: dict[InsidePath, FileEntry]


class Manifest(Entry):
    """The whole state of an index.

    Attributes:
        generation: the number of commits.
        dimension, language, facts, models: see `About`.
        files: of the language space.
    """

    generation: int = Field(ge=0)
    dimension: int = Field(ge=1)
    language: str
    facts: tuple[str, ...]
    models: dict[str, ModelEntry]
    segments: tuple[SegmentEntry, ...] = ()
    structure: StructureEntry | None = None
    files: dict[InsidePath, FileEntry] = Field(default_factory=dict)

    def all_files(self) -> dict[str, FileEntry]:
        """Every file of the index by path, except the manifest itself."""
        parts = [self.files, *(segment.files for segment in self.segments)]
        if self.structure:
            parts.append(self.structure.files)
        return {path: entry for part in parts for path, entry in part.items()}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Make `manifest` the state of the index, in one step."""
    whole = as_json(manifest)
    write_json(folder / COPY, whole)
    write_json(folder / MANIFEST, whole)


def as_json(manifest: Manifest) -> dict[str, Any]:
    """What the files of a manifest hold."""
    body = {"format": FORMAT, "version": VERSION, **manifest.model_dump(mode="json")}
    return {**body, "checksum": _checksum(body)}


def read_manifest(folder: Path, name: str = MANIFEST) -> Manifest:
    """The state of the index in a folder.

    Raises:
        FactIndexError: if there is no index, it is of another version, or the manifest is damaged.
    """
    path = folder / name
    if not path.is_file():
        raise FactIndexError(
            f"{folder} is not an index (it has no {name}); build one with `factlearn index build`, or, if only the "
            "file was lost, restore it with `factlearn index refresh`."
        )
    repair = "restore it with `factlearn index refresh`"
    try:
        content = path.read_bytes().decode()
        body = json.loads(content)
        as_written = content == json_text(body)
        checksum = body.pop("checksum")
        if body.get("format") != FORMAT or checksum != _checksum(body) or not as_written:
            raise FactIndexError(f"{path} is damaged (its checksum differs); {repair}.")
        version = body.pop("version")
        if version != VERSION:
            raise OtherVersionError(
                f"{folder} is an index of version {version}, this factlearn needs version {VERSION}; "
                + ("bring it up to date with `factlearn index upgrade`." if version < VERSION else "use a newer one.")
            )
        del body["format"]
        return Manifest.model_validate(body)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError) as error:
        raise FactIndexError(f"{path} cannot be read; {repair}.") from error


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
