"""Images on their way into a store: their vectors, and one item per image with what is known about it.

    id, path, fact              fact is null where unknown
    facts                       all facts of an image that shows several, `<dog> <person, walking, dog>`; else missing
    bytes, modified, sha256     of the image file when it was indexed, to detect changes
    metadata.KEY                one per metadata key, null where the image has no value

Every value is text or null.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from factlearn import places
from factlearn.errors import FactIndexError
from factlearn.facts import Fact

FILE = ("bytes", "modified", "sha256")
FACTS = "facts"
METADATA = "metadata."
_FACT = re.compile("<[^<>]*>")


def facts_of(item: Mapping[str, Any]) -> tuple[Fact, ...]:
    """The facts in an item; none where unknown."""
    return tuple(map(Fact.parse, _FACT.findall(item.get(FACTS) or item["fact"] or "")))


def labels_of(facts: Sequence[Fact]) -> dict[str, str]:
    """What an item says of an image that shows these facts."""
    several = {FACTS: " ".join(map(str, facts))} if len(facts) > 1 else {}
    return {"fact": str(facts[0]), **several} if facts else {}


def metadata_of(item: Mapping[str, Any]) -> dict[str, str]:
    """The metadata in an item, by key, sorted."""
    found = ((name.removeprefix(METADATA), value) for name, value in sorted(item.items()) if name.startswith(METADATA))
    return {key: value for key, value in found if value is not None}


@dataclass(frozen=True)
class Images:
    """Images to store; all arguments are in the same order."""

    vectors: NDArray[np.float32]
    ids: Sequence[str]
    paths: Sequence[Path | str]
    facts: Sequence[Fact | Sequence[Fact] | None] | None = None
    metadata: Sequence[Mapping[str, str]] | None = None
    files: Sequence[Mapping[str, str]] = ()

    @classmethod
    def of_items(cls, vectors: NDArray[np.float32], items: Sequence[Mapping[str, Any]]) -> Self:
        """From what a store says about them."""
        return cls(
            vectors,
            [item["id"] for item in items],
            [item["path"] for item in items],
            [facts_of(item) for item in items],
            [metadata_of(item) for item in items],
            [{name: item[name] for name in FILE if item.get(name) is not None} for item in items],
        )

    def check(self, dimension: int) -> None:
        """Refuse what cannot be stored.

        Raises:
            FactIndexError: if there are no images, lengths differ, ids repeat, or the vectors are of another space.
        """
        ids = self.ids
        if not len(ids):
            raise FactIndexError("There are no images to index; give at least one.")
        given = {"vectors": self.vectors, "paths": self.paths, "facts": self.facts, "metadata": self.metadata}
        given["files"] = self.files or None
        for name, column in given.items():
            if column is not None and len(column) != len(ids):
                raise FactIndexError(f"There are {len(column)} {name} for {len(ids)} ids; give one per image.")
        if len(set(ids)) != len(ids):
            twice = next(name for name, times in Counter(ids).items() if times > 1)
            raise FactIndexError(f"The image id {twice!r} appears twice; every image needs its own.")
        if self.vectors.shape[-1] != dimension:
            raise FactIndexError(
                f"The vectors have dimension {self.vectors.shape[-1]}, the language space {dimension}; "
                "index vectors of a model trained in this space."
            )

    @cached_property
    def columns(self) -> dict[str, list[str | None]]:
        """The items, column by column.

        Raises:
            FactIndexError: if a value is not Unicode text.
        """
        count = len(self.ids)
        facts, files, metadata = self.facts or [None] * count, self.files or [{}] * count, self.metadata or [{}] * count
        labels = [labels_of([fact] if isinstance(fact, Fact) else fact or []) for fact in facts]
        columns: dict[str, list[Any]] = {
            "id": list(self.ids),
            "path": [places.written(path) for path in self.paths],  # found from any working directory
            "fact": [each.get("fact") for each in labels],
            **({FACTS: [each.get(FACTS) for each in labels]} if any(FACTS in each for each in labels) else {}),
            **{name: [file.get(name) for file in files] for name in FILE},
        }
        keys = {key for entry in metadata for key in entry}
        if wrong := [key for key in keys if not _is_text(key)]:
            raise FactIndexError(f"The metadata key {wrong[0]!r} is not Unicode text; rename it.")
        columns |= {METADATA + key: [entry.get(key) for entry in metadata] for key in sorted(keys)}
        for name, column in columns.items():
            for image, value in zip(self.ids, column, strict=True):
                if value is not None and not _is_text(value):
                    raise FactIndexError(f"The {name} of image {image!r} is {value!r}, not Unicode text; rename it.")
        return columns


def _is_text(value: Any) -> bool:
    """Whether it is a string without the lone surrogates that stand for undecodable bytes in file names."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)
