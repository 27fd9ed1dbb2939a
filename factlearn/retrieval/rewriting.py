"""Changing what is known about images without touching their vectors, for stores that have no way of their own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from factlearn.retrieval.about import Version
from factlearn.retrieval.items import Images
from factlearn.retrieval.rows import unpack

if TYPE_CHECKING:
    from factlearn.retrieval.stores import Store


def rewrite(store: "Store", changes: Mapping[str, Mapping[str, str]]) -> None:
    """Add the changed images again, one commit per model, then remove those whose id has changed."""
    keys = store.keys()
    items = store.items(keys)
    chosen = [place for place, item in enumerate(items) if item["id"] in changes]
    vectors = unpack(store.take(keys[np.array(chosen, np.intp)])) if chosen else None
    by_model: dict[str, list[int]] = {}
    for row, place in enumerate(chosen):
        by_model.setdefault(items[place]["model"], []).append(row)
    models, language = store.about.models, store.load_language()
    for model, rows in by_model.items():
        assert vectors is not None
        new = [{**items[chosen[row]], **changes[items[chosen[row]]["id"]]} for row in rows]
        images = Images.of_items(vectors[rows], new)
        entry = models[model]
        store.add(images, Version(model, entry.lineage, entry.run, entry.stage), store.about.facts, language)
    given = {change.get("id", name) for name, change in changes.items()}
    if gone := {items[place]["id"] for place in chosen} - given:
        store.remove(gone)
