"""From the service's JSON back to the values that `FactIndex` gives."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from factlearn.facts import Fact, FactQuery
from factlearn.retrieval.hits import Hit, ShownFact
from factlearn.retrieval.sentences import Reading


def hit_of(raw: Mapping[str, Any]) -> Hit:
    """An image that was found; its path is only the file's name unless the service runs on this machine."""
    known = {field.name for field in fields(Hit)}
    values = {name: value for name, value in raw.items() if name in known}
    fact = None if raw["fact"] is None else Fact.parse(raw["fact"])
    return Hit(**{**values, "path": Path(raw["path"] or raw["name"]), "fact": fact})


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
