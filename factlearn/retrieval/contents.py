"""What an index holds, and what follows from all of it: its language space, vocabulary and calibration."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from factlearn.facts import Fact, Vocabulary
from factlearn.language import LanguageSpace
from factlearn.retrieval.about import ModelEntry
from factlearn.retrieval.confidence import Confidence
from factlearn.retrieval.fitting import SAMPLE, Fitting
from factlearn.retrieval.options import filter_of
from factlearn.retrieval.rows import unpack
from factlearn.retrieval.stores import Item, Store


class Contents:
    """The contents of an opened index: a snapshot, until `reload`.

    Args:
        store: where the images are.
        language: the space that turns text into vectors; the one saved with the index if not given.
    """

    def __init__(self, store: Store, language: LanguageSpace | None) -> None:
        self.store = store
        self._given = self._language = language

    def reload(self) -> None:
        """Switch to the newest state."""
        self.store = self.store.reload()
        self._language = self._given
        for name in ("vocabulary", "confidence", "fitting"):
            self.__dict__.pop(name, None)

    @property
    def path(self) -> Path | str:
        """The folder or address of the index."""
        return self.store.place

    def __len__(self) -> int:
        return len(self.store)

    @property
    def dimension(self) -> int:
        """The length of a unit's vector."""
        return self.store.about.dimension

    @property
    def models(self) -> Mapping[str, ModelEntry]:
        """The models that made vectors, by fingerprint, oldest first."""
        return self.store.about.models

    @property
    def model(self) -> str:
        """The fingerprint of the newest model."""
        return list(self.models)[-1]

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The known facts, sorted."""
        return self.store.about.facts

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The image vectors [N, 3, D], in the order of `ids`."""
        return unpack(self.store.take(self.store.keys()))

    @property
    def ids(self) -> list[str]:
        """The ids of all images."""
        return [item["id"] for item in self.items()]

    @property
    def paths(self) -> list[Path]:
        """The paths of all images when they were indexed."""
        return [Path(item["path"]) for item in self.items()]

    def items(self, where: str | None = None) -> Sequence[Item]:
        """Metadata of all images, or of those that match a filter (see `factlearn.retrieval.items`)."""
        return self.store.items(self.store.keys(filter_of(where)))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The units that plain-text queries may name."""
        return Vocabulary.of(self.facts)

    @property
    def language(self) -> LanguageSpace:
        """The language space of the index."""
        if self._language is None:
            self._language = self.store.load_language()
        return self._language

    @cached_property
    def confidence(self) -> Confidence:
        """What the distances of the index's vectors are worth, and which facts its newest model was taught."""
        return Confidence(self.models, self.facts, self.language)

    @cached_property
    def fitting(self) -> Fitting:
        """How far images are from facts that they do not show, by a sample of them."""
        keys = self.store.keys()
        by_id = np.argsort(np.asarray(self.store.names(keys), object), kind="stable")  # each store has its own order
        sample = keys[by_id[:: -(-len(keys) // SAMPLE) or 1]]
        return Fitting.of(unpack(self.store.take(sample)), self.facts, self.language)
