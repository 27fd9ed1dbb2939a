"""The registry of data sources: each module here that offers one registers it under its name.

A source of your own is a config section and one function, in a module of this package, of an installed package with
an entry point in the group `factlearn.sources`, or of your program:

    class StreetConfig(SourceConfig):
        source: Literal["street"] = "street"
        city: str

    @source("street", learn="facts", config=StreetConfig, summary="street scenes of one city")
    def open_street(config: StreetConfig, seed: int) -> FactDataset: ...

A config then selects it with `data: {source: street, city: Ghent}`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny

from factlearn.config import Choice, Registry, Section
from factlearn.data.classes import ClassSequence
from factlearn.data.samples import SPLITS, FactDataset
from factlearn.errors import ConfigError, DatasetError

Learn = Literal["facts", "classes"]
Open = TypeVar("Open", bound=Callable[[Any, int], FactDataset | ClassSequence])


class SourceConfig(Section):
    """The base of every source's section."""

    source: str
    """A registered source; see `factlearn list sources`."""

    def open_remaining(self, seed: int) -> "FactDataset | ClassSequence":
        """The data as it is now, where images that are gone are left out if the source can do that."""
        return open_source(self, seed)


class FactSourceConfig(SourceConfig):
    """The base of the sections of sources of facts."""

    facts: int | None = Field(None, ge=2)
    """At most this many facts, evenly spread over the alphabet; all if null."""
    images: int | None = Field(None, ge=1)
    """At most this many training images per fact, evenly spread; all if null."""


class ClassSourceConfig(SourceConfig):
    """The base of the sections of sources of classes."""

    tasks: tuple[str, ...] | None = Field(None, min_length=1)
    """Names of the tasks, in the order to learn them; all of the source's tasks if null."""


@dataclass(frozen=True)
class Source:
    """A source of labelled images.

    Attributes:
        learn: what can be learned from it.
        config: its section of a config.
        open: gives the data for a section and a seed.
        notice: who owns the images, for reports that show them.
    """

    name: str
    summary: str
    learn: Learn
    config: type[SourceConfig]
    open: Callable[[Any, int], FactDataset | ClassSequence]
    notice: str = ""

    @property
    def origin(self) -> Callable[[Any, int], FactDataset | ClassSequence]:
        """Tells it from another source of the same name."""
        return self.open


SOURCES: Registry[Source] = Registry("data source", "factlearn.sources", ("factlearn.data",))


def source(
    name: str, *, learn: Learn, config: type[SourceConfig], summary: str, notice: str = ""
) -> Callable[[Open], Open]:
    """Register the decorated function as the one that opens this source."""

    def register(function: Open) -> Open:
        SOURCES.register(name, Source(name, summary, learn, config, function, notice))
        return function

    return register


def open_source(config: SourceConfig, seed: int) -> FactDataset | ClassSequence:
    """The data that a section describes; facts always come with training and test images.

    Raises:
        DatasetError: if the data cannot be used.
    """
    opened = SOURCES.find(config.source).open(config, seed)
    if isinstance(opened, FactDataset):
        for split in SPLITS:
            if not len(opened.of_split(split)):
                raise DatasetError(
                    f"The dataset {opened.name} has no {split} images; mark some rows with split {split}."
                )
    return opened


def open_facts(config: SourceConfig, seed: int) -> FactDataset:
    """`open_source` for a source of facts."""
    opened = open_source(config, seed)
    if not isinstance(opened, FactDataset):
        raise ConfigError(f"data: {_mismatch(config.source, 'facts')}.")
    return opened


def open_classes(config: SourceConfig, seed: int) -> ClassSequence:
    """`open_source` for a source of classes."""
    opened = open_source(config, seed)
    if not isinstance(opened, ClassSequence):
        raise ConfigError(f"data: {_mismatch(config.source, 'classes')}.")
    return opened


def _mismatch(name: str, learn: Learn) -> str:
    other = SOURCES.find(name).learn
    fitting = ", ".join(sorted(each.name for each in SOURCES.values() if each.learn == learn))
    return f"{name} holds {other}, not {learn}; set learn: {other}, or choose one of {fitting}"


def _holds(learn: Learn) -> AfterValidator:
    def check(config: SourceConfig) -> SourceConfig:
        if SOURCES.find(config.source).learn != learn:
            raise ValueError(_mismatch(config.source, learn))
        return config

    return AfterValidator(check)


FactData = Annotated[SerializeAsAny[SourceConfig], BeforeValidator(Choice(SOURCES, "source", "emoji")), _holds("facts")]
"""A config field for any source of facts."""
ClassData = Annotated[
    SerializeAsAny[SourceConfig], BeforeValidator(Choice(SOURCES, "source", "emoji8")), _holds("classes")
]
"""A config field for any source of classes."""
