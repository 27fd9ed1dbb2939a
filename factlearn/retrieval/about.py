"""The description of an index: its language space, known facts, and the models that made its vectors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict

from factlearn.errors import FactIndexError
from factlearn.facts import Fact

if TYPE_CHECKING:
    from factlearn.language import LanguageSpace


class Entry(BaseModel):
    """A part of what a store writes down; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelEntry(Entry):
    """A model whose vectors an index holds: where to find it, and what it descends from.

    Attributes:
        lineage: the fingerprint of the model after its first task; only models that share it may share an index.
        run: the run directory it came from, if any.
        stage: the stage of the run after which it was saved.
        number: its rank by when it was first used for the index.
        calibration: what its distances are worth, see `factlearn.evaluation.confidence`, if that is known.
        taught: the facts it was taught, if that is known.
    """

    lineage: str
    run: str | None = None
    stage: int | None = None
    number: int = 0
    calibration: dict[str, Any] | None = None
    taught: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Version:
    """The model that makes vectors: its fingerprint, and where it comes from (see `ModelEntry`)."""

    fingerprint: str
    lineage: str
    run: str | None = None
    stage: int | None = None
    calibration: dict[str, Any] | None = field(default=None, compare=False)
    taught: tuple[str, ...] | None = field(default=None, compare=False)


def with_version(models: Mapping[str, ModelEntry], version: Version) -> dict[str, ModelEntry]:
    """The models of an index once it holds vectors of this version."""
    learned = {"calibration": version.calibration, "taught": version.taught}
    if (known := models.get(version.fingerprint)) is not None:
        newer = {name: value for name, value in learned.items() if value is not None}
        return {**models, version.fingerprint: known.model_copy(update=newer)}
    number = 1 + max((entry.number for entry in models.values()), default=-1)
    entry = ModelEntry(lineage=version.lineage, run=version.run, stage=version.stage, number=number, **learned)
    return {**models, version.fingerprint: entry}


@dataclass(frozen=True)
class About:
    """What an index says about itself.

    Attributes:
        dimension: the length of a unit's vector.
        language: the fingerprint of the language space.
        facts: the known facts; plain-text queries may use the words of their units.
        models: the models that made vectors, by fingerprint, oldest first.
    """

    dimension: int
    language: str
    facts: tuple[Fact, ...]
    models: Mapping[str, ModelEntry]

    @classmethod
    def of(cls, dimension: int, language: str, facts: Iterable[str], models: Mapping[str, ModelEntry]) -> Self:
        """From what a store has written down."""
        ordered = dict(sorted(models.items(), key=lambda item: item[1].number))
        return cls(dimension, language, tuple(map(Fact.parse, facts)), ordered)

    def check_version(self, place: Path | str, version: Version) -> None:
        """Refuse a model that does not descend from the same first task as the others.

        Raises:
            FactIndexError: naming both lineages.
        """
        lineages = {entry.lineage for entry in self.models.values()}
        if lineages and version.lineage not in lineages:
            raise FactIndexError(
                f"{place} holds vectors of models that descend from {', '.join(sorted(lineages))}; the model "
                f"{version.fingerprint} descends from {version.lineage} and is not comparable: build a separate index "
                "for it."
            )

    def check_addition(self, place: Path | str, version: Version, language: "LanguageSpace") -> None:
        """Refuse vectors that do not belong in the index as it is now; others may have replaced it since it was opened.

        Raises:
            FactIndexError: if the language space or the model's lineage differs.
        """
        if self.language != language.fingerprint:
            raise FactIndexError(f"{place} now uses the language space {self.language}; open it again.")
        self.check_version(place, version)
