"""What a fact index needs of the place it is stored in."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.facts import Fact
from factlearn.retrieval.folder.manifest import ModelEntry
from factlearn.retrieval.search import Keys, Store
from factlearn.retrieval.where import Filter

if TYPE_CHECKING:
    from factlearn.language import LanguageSpace


@dataclass(frozen=True)
class Version:
    """The model that makes vectors: its fingerprint, and where it comes from (see `ModelEntry`)."""

    fingerprint: str
    lineage: str
    run: str | None = None
    stage: int | None = None

    def entry(self, number: int) -> ModelEntry:
        """As a manifest keeps it."""
        return ModelEntry(lineage=self.lineage, run=self.run, stage=self.stage, number=number)


@dataclass(frozen=True)
class About:
    """What an index says of itself.

    Attributes:
        dimension: the length of a unit's vector.
        language: the fingerprint of the language space.
        facts: the facts known.
        models: the versions that wrote vectors, oldest first.
    """

    dimension: int
    language: str
    facts: tuple[Fact, ...]
    models: Mapping[str, ModelEntry]

    def check_version(self, place: Any, version: Version) -> None:
        """Refuse a model that does not descend from the same first task as the others."""
        lineages = {entry.lineage for entry in self.models.values()}
        if lineages and version.lineage not in lineages:
            raise FactIndexError(
                f"{place} holds vectors of models that descend from {', '.join(sorted(lineages))}; the model "
                f"{version.fingerprint} descends from {version.lineage} and is foreign: build an index of its own."
            )


@dataclass(frozen=True)
class Images:
    """Images to store: their vectors [N, 3, D] and what is known of them, in one order."""

    vectors: NDArray[np.float32]
    ids: Sequence[str]
    paths: Sequence[Path | str]
    facts: Sequence[Fact | None] | None = None
    metadata: Sequence[Mapping[str, str]] | None = None
    files: Sequence[Mapping[str, str]] = field(default_factory=list)

    def check(self, dimension: int) -> None:
        """Refuse what cannot be stored.

        Raises:
            FactIndexError: if there is nothing, columns differ in length, ids repeat, or vectors are of another space.
        """
        ids = self.ids
        if not len(ids):
            raise FactIndexError("There are no images to index; give at least one.")
        given = {"vectors": self.vectors, "paths": self.paths, "facts": self.facts, "metadata": self.metadata}
        given["files"] = self.files or None
        for name, column in given.items():
            if column is not None and len(column) != len(ids):
                raise FactIndexError(f"There are {len(column)} {name} for {len(ids)} ids; give one an image.")
        if len(set(ids)) != len(ids):
            twice = next(name for name, times in Counter(ids).items() if times > 1)
            raise FactIndexError(f"The image id {twice!r} appears twice; every image needs its own.")
        if self.vectors.shape[-1] != dimension:
            raise FactIndexError(
                f"The vectors have dimension {self.vectors.shape[-1]}, the language space {dimension}; "
                "index vectors of a model trained in this space."
            )

    def columns(self) -> dict[str, Sequence[str | None]]:
        """What is stored in columns, one value an image."""
        facts = self.facts or [None] * len(self.ids)
        files = self.files or [{}] * len(self.ids)
        return {
            "id": self.ids,
            "path": [str(Path(path).absolute()) for path in self.paths],  # found from any working directory
            "fact": [None if fact is None else str(fact) for fact in facts],
            **{name: [file.get(name) for file in files] for name in ("bytes", "modified", "sha256")},
        }

    def more(self) -> Sequence[Mapping[str, str]]:
        """The metadata of each image."""
        return self.metadata or [{}] * len(self.ids)


class Backend(Store, Protocol):
    """Where an index is stored, opened."""

    @property
    def place(self) -> Path | str:
        """The folder or address."""

    @property
    def about(self) -> About:
        """What the index says of itself."""

    def __len__(self) -> int: ...

    def items(self, keys: Keys) -> Sequence[Mapping[str, Any]]:
        """What is stored of images beside their vectors."""

    def keys(self, where: Filter | None = None) -> Keys:
        """Of all images, or of those that pass a filter."""

    def add(self, images: Images, version: Version, facts: Iterable[Fact], language: Any) -> None:
        """Store images, in place of those with the same ids."""

    def remove(self, ids: Collection[str]) -> int:
        """Forget images; how many there were."""

    def load_language(self) -> "LanguageSpace":
        """The language space saved with the index."""

    def problems(self) -> list[FactIndexError]:
        """Whatever of the index is not as it was written."""

    def reload(self) -> "Backend":
        """The newest state."""
