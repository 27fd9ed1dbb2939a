"""Copying an index from one store to another, such as from a folder to a Milvus server and back.

A copy is exact: the same images with the same vectors, bit for bit, and what is known about them, the same models,
facts and language space; so it gives the same answers. What belongs to a store alone, such as the search structures of
a folder that was optimized, is not copied.
"""

from collections.abc import Iterator
from pathlib import Path

from factlearn.errors import FactIndexError
from factlearn.progress import progress
from factlearn.retrieval.index import FactIndex
from factlearn.retrieval.items import Images
from factlearn.retrieval.rows import unpack
from factlearn.retrieval.stores import Part, Store, store_at

_AT_ONCE = 1 << 14  # images in memory


def copy(source: FactIndex, target: Path | str, *, overwrite: bool = False) -> FactIndex:
    """Copy an index to another address, of the same or of another store.

    Args:
        source: the index.
        target: where to make the copy.
        overwrite: replace an index that is there.

    Raises:
        FactIndexError: if the place is taken, or is the source itself, or the source was changed meanwhile.
    """
    kind = store_at(target)
    if _is_same(source.store, kind.shown(target)):
        raise FactIndexError(f"{source.path} cannot be copied to itself; choose another place.")
    kind.check_place(target, overwrite=overwrite)
    about, language = source.store.about, source.language
    made = kind.create(target, about, language, _parts(source.store), overwrite=overwrite)
    return FactIndex(made, language)


def _is_same(store: Store, target: str) -> bool:
    if store_at(store.place) is not store_at(target):
        return False
    if isinstance(store.place, Path):
        return store.place.resolve() == Path(target).resolve()
    return store.place.partition("?")[0] == target.partition("?")[0]


def _parts(store: Store) -> Iterator[Part]:
    """All images, some thousand at a time, those of each model together."""
    keys = store.keys()
    with progress("copying", len(keys)) as advance:
        for start in range(0, len(keys), _AT_ONCE):
            batch = keys[start : start + _AT_ONCE]
            items, vectors = store.items(batch), unpack(store.take(batch))
            places: dict[str, list[int]] = {}
            for place, item in enumerate(items):
                places.setdefault(item["model"], []).append(place)
            for model, chosen in places.items():
                yield Images.of_items(vectors[chosen], [items[place] for place in chosen]), model
            advance(len(batch))
    if not store.is_current():
        raise FactIndexError(f"{store.place} was changed while it was copied; copy it again.")
