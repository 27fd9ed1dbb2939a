"""Where indexes are stored: the protocol of a store, and the registry that finds one by an address.

An address is `SCHEME:...` or the path of a folder. To add a store, subclass `Store` and register the class:

    @store("mem", summary="In this process, gone when it ends.")
    class MemoryStore(Store): ...

    FactIndex.create("mem:photos", ...)

The built-in stores are `folder/store.py` and `milvus/store.py`; installed packages register theirs through the
entry-point group `factlearn.stores`.
"""

import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from factlearn.config import Registry
from factlearn.errors import FactIndexError
from factlearn.facts import Fact
from factlearn.retrieval.about import About, Version
from factlearn.retrieval.items import Images
from factlearn.retrieval.rows import Keys, Swept
from factlearn.retrieval.where import Filter

if TYPE_CHECKING:
    from factlearn.language import LanguageSpace
    from factlearn.retrieval.trials import Trial

DEFAULT = "folder"
Item = Mapping[str, Any]
Part = tuple[Images, str]
"""Images to store, and the fingerprint of the model that embedded them."""
AnyStore = TypeVar("AnyStore", bound="Store")


class Store(Protocol):
    """An index, opened where it is stored. A subclass writes what is abstract here and inherits the rest."""

    scheme: ClassVar[str] = ""
    summary: ClassVar[str] = ""

    # Opening and making

    @classmethod
    @abstractmethod
    def open(cls, path: Path | str) -> Self:
        """Open the index at an address.

        Raises:
            FactIndexError: if there is none, or it is damaged.
        """

    @classmethod
    @abstractmethod
    def create(
        cls, path: Path | str, about: About, language: "LanguageSpace", parts: Iterable[Part], *, overwrite: bool
    ) -> Self:
        """Make an index at an address and open it.

        Args:
            path: the address.
            about: what the index shall say about itself.
            language: its language space, which knows the units of all facts.
            parts: the images, at least one; read one part at a time, so that they need not fit in memory.
            overwrite: replace an index that is there.

        Raises:
            FactIndexError: if the place is taken and not an index, or one that may not be overwritten.
        """

    @classmethod
    def check_place(cls, path: Path | str, *, overwrite: bool) -> None:
        """Refuse an address where `create` would fail, before the work of embedding begins.

        Raises:
            FactIndexError: if the place is taken and not an index, or one that may not be overwritten.
        """

    @classmethod
    def shown(cls, path: Path | str) -> str:
        """An address as it may be printed, without secrets."""
        return str(path)

    @abstractmethod
    def reload(self) -> Self:
        """The newest state."""

    def is_current(self) -> bool:
        """Whether what is read is still the state that was opened; always so for a snapshot."""
        return True

    # What it holds

    @property
    @abstractmethod
    def place(self) -> Path | str:
        """The address, without secrets."""

    @property
    @abstractmethod
    def about(self) -> About:
        """What the index says about itself."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of images."""

    @abstractmethod
    def keys(self, where: Filter | None = None) -> Keys:
        """The keys of all images, or of those that pass a filter."""

    @abstractmethod
    def take(self, keys: Keys) -> NDArray[np.float32]:
        """Rows by key."""

    @abstractmethod
    def items(self, keys: Keys) -> Sequence[Item]:
        """Items by key (see `items.py`), each with the fingerprint of the `model` that embedded the image."""

    def names(self, keys: Keys) -> Sequence[str]:
        """The images' ids by key."""
        return [item["id"] for item in self.items(keys)]

    @abstractmethod
    def load_language(self) -> "LanguageSpace":
        """The language space saved with the index."""

    def describe(self) -> dict[str, Any]:
        """More for `factlearn index info`: plain JSON values."""
        return {}

    # Searching (see `search.py`)

    @property
    @abstractmethod
    def exact(self) -> bool:
        """Whether `sweep` considers every row."""

    @property
    @abstractmethod
    def largest(self) -> NDArray[np.float64]:
        """The largest squared norm of each unit."""

    @abstractmethod
    def sweep(self, queries: NDArray[np.float32], count: int, where: Filter | None) -> Sequence[Swept]:
        """For each query the `count` rows of highest inner product, best first; fewer only if there are no more."""

    @abstractmethod
    def above(self, query: NDArray[np.float32], least: float, where: Filter | None) -> Keys:
        """The rows whose float32 inner product is at least `least`."""

    # Changing and maintaining

    @abstractmethod
    def add(self, images: Images, version: Version, facts: Iterable[Fact], language: "LanguageSpace") -> None:
        """Store images, replacing those with the same ids."""

    @abstractmethod
    def remove(self, ids: Collection[str]) -> int:
        """Remove images; returns how many there were."""

    def rewrite(self, changes: Mapping[str, Mapping[str, str]]) -> None:
        """Change columns of items by id, such as `path` or `id` itself; vectors stay as they are.

        An image that has the new id of another is replaced. Stores that can do so change everything in one commit.
        """
        from factlearn.retrieval.rewriting import rewrite

        rewrite(self, changes)

    @abstractmethod
    def problems(self) -> list[FactIndexError]:
        """Everything in the index that is not as it was written."""

    def optimize(self, language: "LanguageSpace", **options: Any) -> "list[Trial]":
        """Choose the fastest way to search that reaches a recall, and use it from now on.

        Raises:
            FactIndexError: if the store has no such choice.
        """
        raise FactIndexError(f"{self.place} is searched by its server; only index folders can be optimized.")

    @classmethod
    def verify(cls, path: Path | str) -> list[FactIndexError]:
        """`problems` of an index that may be too damaged to open."""
        try:
            return cls.open(path).problems()
        except FactIndexError as error:
            return [error]

    @classmethod
    def restore(cls, path: Path | str, language: "LanguageSpace | None" = None) -> list[Item]:
        """Make a damaged index whole again; returns the images that were lost, to be embedded again."""
        return []

    @classmethod
    def upgrade(cls, path: Path | str) -> bool:
        """Rewrite an index of an earlier format in the present one; False if it is up to date."""
        cls.open(path)
        return False


STORES: Registry[type[Store]] = Registry(
    "vector store", "factlearn.stores", ("factlearn.retrieval.folder.store", "factlearn.retrieval.milvus.store")
)


def store(scheme: str, *, summary: str) -> Callable[[type[AnyStore]], type[AnyStore]]:
    """Register a store class for addresses that start with `SCHEME:`."""

    def register(cls: type[AnyStore]) -> type[AnyStore]:
        cls.scheme, cls.summary = scheme, summary
        STORES.register(scheme, cls)
        return cls

    return register


def store_at(path: Path | str) -> type[Store]:
    """The store that an address belongs to; a folder that exists is a folder whatever its name.

    Raises:
        FactIndexError: if the scheme is unknown.
    """
    scheme, colon, rest = str(path).partition(":")
    if not colon or os.path.isdir(path):
        return STORES[DEFAULT]
    if scheme in STORES:
        return STORES[scheme]
    if rest.startswith("//"):
        known = ", ".join(f"{name}:" for name in STORES if name != DEFAULT)
        raise FactIndexError(
            f"There is no vector store {scheme!r}; give a folder, or an address that begins with {known}."
        )
    return STORES[DEFAULT]
