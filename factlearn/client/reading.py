"""From the service's JSON back to the values that `FactIndex` gives."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from factlearn.facts import Fact, FactQuery
from factlearn.retrieval.hits import Hit, ShownFact
from factlearn.retrieval.items import METADATA
from factlearn.retrieval.sentences import Reading


def hit_of(raw: Mapping[str, Any]) -> Hit:
    """An image that was found; its path is only the file's name unless the service runs on this machine."""
    known = {field.name for field in fields(Hit)}
    values = {name: value for name, value in raw.items() if name in known}
    fact = None if raw["fact"] is None else Fact.parse(raw["fact"])
    more = tuple(map(Fact.parse, raw["labels"][1:]))
    return Hit(**{**values, "path": Path(raw["path"] or raw["name"]), "fact": fact, "more": more})


def item_of(raw: Mapping[str, Any]) -> dict[str, Any]:
    """What is known about an image, with the keys of `factlearn.retrieval.items` and those of the service."""
    labels = {"facts": " ".join(raw["labels"])} if len(raw["labels"]) > 1 else {}
    metadata = {METADATA + key: value for key, value in raw["metadata"].items()}
    rest = {name: value for name, value in raw.items() if name not in ("metadata", "labels")}
    return {**rest, "path": raw["path"] or raw["name"], **labels, **metadata}


def shown_of(raw: Mapping[str, Any]) -> ShownFact:
    """A fact that an image shows."""
    known = {field.name for field in fields(ShownFact)}
    values = {name: value for name, value in raw.items() if name in known}
    return ShownFact(**{**values, "fact": Fact.parse(raw["fact"])})


def reading_of(raw: Mapping[str, Any]) -> Reading:
    """How a text was understood."""

    def queries(name: str) -> tuple[FactQuery, ...]:
        return tuple(FactQuery.parse(each["fact"]) for each in raw[name])

    return Reading(
        raw["text"],
        FactQuery.parse(raw["query"]["fact"]),
        queries("also"),
        queries("without"),
        queries("any_of"),
        tuple(raw["notes"]),
        queries("alternatives"),
    )


def asked_for(
    query: object, also: Iterable[object], without: Iterable[object], any_of: Iterable[object]
) -> dict[str, Any]:
    """What is asked for, as parameters of a search."""
    text = str(query)
    if isinstance(query, Reading):
        text, also = str(query.query), (*query.also, *also)
        without, any_of = (*query.without, *without), (*query.any_of, *any_of)
    return {"q": text, "and": list(map(str, also)), "not": list(map(str, without)), "or": list(map(str, any_of))}
