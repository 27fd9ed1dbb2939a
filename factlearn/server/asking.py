"""From a request's parameters to hits: reading texts, checking options, one sweep or a longer search."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from factlearn.errors import FactIndexError, FactlearnError
from factlearn.retrieval.confidence import seen_until
from factlearn.retrieval.hits import Hit
from factlearn.retrieval.negation import MARGIN
from factlearn.retrieval.options import check_margin, check_page, filter_of, weights_of
from factlearn.retrieval.sentences import Reading, single
from factlearn.retrieval.where import check_columns
from factlearn.server.catalog import Served
from factlearn.server.problems import ServiceError
from factlearn.server.service import Service
from factlearn.server.snapshots import Snapshot

_DEEPEST = 100_000  # offset + k: a ranking is worked out from its top


@dataclass(frozen=True)
class Options:
    """How to search, besides what for; see `FactIndex.query`."""

    k: int = 24
    offset: int = 0
    where: str | None = None
    weights: tuple[float, ...] | None = None
    threshold: float | None = None
    margin: float = MARGIN
    anywhere: bool = False

    def check(self, snapshot: Snapshot) -> None:
        """Refuse what makes no sense.

        Raises:
            FactlearnError: saying what.
        """
        check_page(self.k, self.offset)
        check_margin(self.margin)
        weights_of(self.weights)
        if self.offset + self.k > _DEEPEST:
            raise FactIndexError(f"Only the best {_DEEPEST:,} images can be paged through; narrow the query.")
        try:
            passing = filter_of(self.where)
        except RecursionError:
            raise FactIndexError("The filter is nested too deeply; simplify it.") from None
        columns = getattr(snapshot.index.store, "columns", None)
        if passing is not None and columns is not None:
            check_columns(passing, columns)


def parse_weights(text: str | None) -> tuple[float, ...] | None:
    """Three numbers such as 1,2,1.

    Raises:
        FactIndexError: if they are not.
    """
    if text is None or not text.strip():
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise FactIndexError(f"{text!r} are not weights; write three numbers such as 1,2,1.") from None


async def read(service: Service, snapshot: Snapshot, text: str) -> Reading:
    """How a text is understood; what needs a search for words does not hold up what does not."""
    if snapshot.is_quick(text):
        return snapshot.read(text)
    return await service.reads.run(snapshot.read, text)


async def read_one(service: Service, snapshot: Snapshot, text: str) -> Any:
    """The one fact that a text asks for.

    Raises:
        FactError: if it asks for more.
    """
    return single(await read(service, snapshot, text))


async def read_whole(
    service: Service,
    snapshot: Snapshot,
    text: str,
    also: Sequence[str],
    without: Sequence[str],
    any_of: Sequence[str] = (),
) -> Reading:
    """A text with the facts that must, must not or may instead be shown."""
    reading = await read(service, snapshot, text)
    both = [await read_one(service, snapshot, each) for each in also]
    unwanted = [await read_one(service, snapshot, each) for each in without]
    either = [await read_one(service, snapshot, each) for each in any_of]
    return replace(
        reading,
        also=(*reading.also, *both),
        without=(*reading.without, *unwanted),
        any_of=(*reading.any_of, *either),
    )


@dataclass(frozen=True)
class Found:
    """A page of hits, and after how many of all hits the model sees other facts; None if that is not known."""

    hits: Sequence[Hit]
    cut: int | None = None

    @classmethod
    def page(cls, best: Sequence[Hit], options: Options, images: int) -> "Found":
        """The page of a ranking that was worked out from its top to the page's end."""
        seen = seen_until(best)
        ends = seen != len(best) or len(best) < options.offset + options.k or len(best) >= images
        return cls(best[options.offset :], seen if ends else None)


async def find(service: Service, served: Served, snapshot: Snapshot, reading: Reading, options: Options) -> Found:
    """A page of the images that answer a query.

    Raises:
        ServiceError: if the index turns out to be damaged, or too many wait.
        FactlearnError: if the options make no sense.
    """
    options.check(snapshot)
    try:
        if reading.is_single and not options.anywhere:
            deep = options.offset + options.k
            hits = await served.batcher.ask(snapshot, reading, deep, options.where, options.weights)
            best: Sequence[Hit] = [hit for hit in hits if options.threshold is None or hit.score >= options.threshold]
        else:
            best = await service.others.run(query, snapshot, reading, options)
        return Found.page(best, options, len(snapshot.index))
    except FactlearnError as error:
        raise await blamed(service, served, error) from None


def query(snapshot: Snapshot, reading: Reading, options: Options) -> list[Hit]:
    """The ranking of an index from its top to the end of the page that the options ask for."""
    return snapshot.index.query(
        reading,
        options.offset + options.k,
        where=options.where,
        weights=options.weights,
        threshold=options.threshold,
        margin=options.margin,
        anywhere=options.anywhere,
    )


async def blamed(service: Service, served: Served, error: FactlearnError) -> Exception:
    """An error of a search as what to tell the client: 503 if the index is damaged, otherwise the request's own."""
    if isinstance(error, FactIndexError) and await service.watching.run(served.is_damaged):
        return ServiceError(503, f"The index {served.name} cannot be searched: {served.reason}", {"Retry-After": "5"})
    return type(error)(str(error))


def following(options: Options, found: int, images: int) -> int | None:
    """The offset of the next page."""
    end = options.offset + options.k
    return end if found == options.k and end < images else None
