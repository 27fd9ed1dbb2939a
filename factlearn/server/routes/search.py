"""Searching by text, by several texts, by a picture and by a vector."""

import asyncio
import time
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, File, Form, Query, UploadFile
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from factlearn.errors import FactError, FactlearnError
from factlearn.retrieval.anywhere import anywhere as placed_anywhere
from factlearn.retrieval.hits import Hit
from factlearn.retrieval.negation import MARGIN
from factlearn.retrieval.sentences import Reading
from factlearn.server.answers import HitWriter, json_response, shown, understood
from factlearn.server.asking import Found, Options, blamed, find, following, parse_weights, read, read_one, read_whole
from factlearn.server.catalog import Served
from factlearn.server.problems import responses
from factlearn.server.service import Service, TheService
from factlearn.server.shapes.search import (
    FactsAnswer,
    ManyAnswers,
    ManyQueries,
    SearchAnswer,
    SimilarAnswer,
    Understood,
    VectorQuery,
)
from factlearn.server.snapshots import Snapshot

router = APIRouter(tags=["search"], responses=responses(408, 409))
Text = Annotated[str, Field(max_length=500)]
Where = Annotated[str | None, Field(max_length=2000, examples=["split = 'test'"])]
IndexName = Annotated[str | None, Field(max_length=200, description="The first one if not given.")]
Unwanted = Annotated[list[Text] | None, Field(max_length=8, description="Facts that an image must not show.")]
Margin = Annotated[float, Field(ge=0, le=1, description="How firmly `not` excludes.")]
Threshold = Annotated[float | None, Field(allow_inf_nan=False, description="The lowest score to include.")]


class Question(BaseModel):
    """What is asked for, and of which images."""

    model_config = ConfigDict(extra="forbid")

    q: Text | None = Field(None, examples=["<person, riding, *>"])
    index: IndexName = None
    where: Where = None
    weights: Annotated[str | None, Field(max_length=100, examples=["1,2,1"])] = None
    also: list[Text] = Field([], alias="and", max_length=8, description="Facts that the same image must show.")
    without: list[Text] = Field([], alias="not", max_length=8, description="Facts that it must not show.")
    any_of: list[Text] = Field([], alias="or", max_length=8, description="Facts that it may show instead.")
    anywhere: bool = Field(False, description="Match units in any position: <bike> also finds <person, riding, bike>.")
    margin: Margin = MARGIN

    async def read(self, service: Service, snapshot: Snapshot, text: str) -> Reading:
        """How a text is understood, with all that is asked for besides."""
        return await read_whole(service, snapshot, text, self.also, self.without, self.any_of)

    def options(self) -> Options:
        """How to search."""
        weights = parse_weights(self.weights)
        return Options(where=self.where, weights=weights, margin=self.margin, anywhere=self.anywhere)


class SearchQuery(Question):
    """The parameters of a search."""

    subject: Text | None = None
    predicate: Text | None = None
    object: Text | None = None
    stage: int | None = Field(None, ge=1, le=10_000, description="As the model after this stage saw the images.")
    k: int = Field(24, ge=1, le=1000)
    offset: int = Field(0, ge=0, le=1_000_000)
    threshold: Threshold = None
    sort: Annotated[str | None, Field(max_length=200)] = Field(
        None, description="A column to sort the relevant images by; with - before it, in descending order."
    )
    within: int = Field(200, ge=1, le=1000, description="How many of the best are relevant if the model sees none.")

    def text(self) -> str:
        """The query as text.

        Raises:
            FactError: if nothing is asked for.
        """
        units = [self.subject, self.predicate, self.object]
        if self.q is None:
            if not any(units):
                raise FactError("Nothing is asked for; give q, or one of subject, predicate and object.")
            return f"<{', '.join(unit or '*' for unit in units)}>"
        if any(units):
            raise FactError("Give either q, or subject, predicate and object; not both.")
        return self.q

    def options(self) -> Options:
        """How to search."""
        return replace(super().options(), k=self.k, offset=self.offset, threshold=self.threshold)


@router.get("/search", response_model=SearchAnswer, summary="Images that show a fact")
async def search(service: TheService, query: Annotated[SearchQuery, Query()]) -> Response:
    """The images that answer a query, best first: a fact with wildcards, or a plain sentence."""
    started = time.perf_counter()
    served = service.catalog.find(query.index, query.stage)
    snapshot = served.current()
    options = query.options()
    reading = await query.read(service, snapshot, query.text())
    if query.sort:
        found = await _sorted(service, served, snapshot, reading, options, query)
    else:
        found = await find(service, served, snapshot, reading, options)
    return json_response(answer(service, served, snapshot, reading, options, found, started))


async def _sorted(
    service: Service, served: Served, snapshot: Snapshot, reading: Reading, options: Options, query: SearchQuery
) -> Found:
    """A page of the relevant images, sorted by a column; those without a value come last."""
    whole = replace(options, k=query.within, offset=0)
    found = await find(service, served, snapshot, reading, whole)
    hits = found.hits[: found.cut or None]  # a model that is sure of none still has an order
    column = (query.sort or "").removeprefix("-")
    if hits and all(_value(hit, column) is None for hit in hits):
        raise FactError(f"None of these images has a value for {column!r}; sort by another column.")
    descending = (query.sort or "").startswith("-")
    ranked = sorted(hits, key=lambda hit: _sort_key(hit, column), reverse=descending)
    ranked.sort(key=lambda hit: _value(hit, column) is None)
    return Found(ranked[options.offset : options.offset + options.k])


def _value(hit: Hit, column: str) -> str | None:
    if column == "id":
        return hit.id
    if column == "fact":
        return None if hit.fact is None else str(hit.fact)
    if column == "model":
        return hit.model
    return hit.metadata.get(column)


def _sort_key(hit: Hit, column: str) -> tuple[bool, float, str]:
    """Numbers before texts, each in their own order."""
    from factlearn.retrieval.where import number_of

    value = _value(hit, column) or ""
    number = number_of(value)
    return number is None, number or 0.0, value


def answer(
    service: Service,
    served: Served,
    snapshot: Snapshot,
    reading: Reading,
    options: Options,
    found: Found,
    started: float,
) -> dict[str, Any]:
    """The JSON of a search."""
    index = snapshot.index
    judged = placed_anywhere(reading, index.vocabulary) if options.anywhere else reading
    write = HitWriter(served.name, paths=service.settings.loopback, reading=judged, known=index.vocabulary)
    untaught = {} if options.anywhere else index.confidence.never_taught(reading, options.weights)
    return {
        "index": served.name,
        "stage": snapshot.stage,
        "understood": understood(reading, [f"{query}: {how}" for query, how in untaught.items()]),
        "hits": write(found.hits),
        "k": options.k,
        "offset": options.offset,
        "next": following(options, len(found.hits), len(index)),
        "images": len(index),
        "cut": found.cut,
        "seconds": round(time.perf_counter() - started, 6),
    }


@router.get("/understand", response_model=Understood, summary="How a text is understood")
async def understand(
    service: TheService,
    q: Annotated[str, Query(max_length=500)],
    index: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """How a query text would be parsed, without searching."""
    snapshot = service.catalog.find(index).current()
    return json_response(understood(await read(service, snapshot, q)))


@router.post("/search", response_model=ManyAnswers, summary="Several queries at once")
async def search_many(service: TheService, asked: ManyQueries) -> Response:
    """Answer several queries, each separately, in one scan."""
    started = time.perf_counter()
    served = service.catalog.find(asked.index, asked.stage)
    snapshot = served.current()
    options = Options(asked.k, 0, asked.where, None if asked.weights is None else tuple(asked.weights))
    readings = [await read(service, snapshot, text) for text in asked.queries]
    found = await asyncio.gather(*(find(service, served, snapshot, each, options) for each in readings))
    answers = [
        answer(service, served, snapshot, reading, options, page, started)
        for reading, page in zip(readings, found, strict=True)
    ]
    return json_response({"answers": answers})


async def similar_answer(
    service: Service,
    served: Served,
    snapshot: Snapshot,
    vector: Any,
    options: Options,
    without: list[str],
    facts: int,
    started: float,
) -> Response:
    """The images most like a vector, and the facts it shows."""
    options.check(snapshot)
    unwanted = [await read_one(service, snapshot, each) for each in without]

    def look() -> tuple[list[Hit], Any]:
        index = snapshot.index
        hits = index.similar(
            vector,
            options.k,
            weights=options.weights,
            where=options.where,
            offset=options.offset,
            threshold=options.threshold,
            without=unwanted,
            margin=options.margin,
        )
        return hits, index.facts_of(vector, facts) if index.facts else []

    try:
        hits, found = await service.others.run(look)
    except FactlearnError as error:
        raise await blamed(service, served, error) from None
    write = HitWriter(served.name, paths=service.settings.loopback)
    return json_response({
        "index": served.name,
        "facts": shown(found),
        "hits": write(hits),
        "k": options.k,
        "offset": options.offset,
        "next": following(options, len(hits), len(snapshot.index)),
        "seconds": round(time.perf_counter() - started, 6),
    })  # fmt: skip


@router.post("/search/vector", response_model=SimilarAnswer, summary="Images like a vector")
async def search_vector(service: TheService, asked: VectorQuery) -> Response:
    """The images whose vectors are closest to a vector [3, D]."""
    started = time.perf_counter()
    served = service.catalog.find(asked.index)
    snapshot = served.current()
    if len({len(row) for row in asked.vector}) != 1:
        raise FactError("The three rows of the vector differ in length.")
    weights = None if asked.weights is None else tuple(asked.weights)
    options = Options(asked.k, asked.offset, asked.where, weights, asked.threshold, asked.margin)
    with np.errstate(over="ignore"):
        vector = np.asarray(asked.vector, np.float32)
    return await similar_answer(service, served, snapshot, vector, options, asked.without, asked.facts, started)


@router.post("/search/image", response_model=SimilarAnswer, summary="Images like a picture")
async def search_image(
    service: TheService,
    image: Annotated[UploadFile, File(description="The picture.")],
    index: Annotated[str | None, Form(max_length=200)] = None,
    k: Annotated[int, Form(ge=1, le=1000)] = 24,
    offset: Annotated[int, Form(ge=0, le=1_000_000)] = 0,
    where: Annotated[str | None, Form(max_length=2000)] = None,
    weights: Annotated[str | None, Form(max_length=100)] = None,
    without: Annotated[Unwanted, Form(alias="not")] = None,
    margin: Annotated[Margin, Form()] = MARGIN,
    threshold: Annotated[Threshold, Form()] = None,
    facts: Annotated[int, Form(ge=1, le=100)] = 5,
) -> Response:
    """The images most similar to an uploaded picture, and the facts it shows."""
    started = time.perf_counter()
    served = service.catalog.find(index)
    snapshot = served.current()
    options = Options(k, offset, where, parse_weights(weights), threshold, margin)
    options.check(snapshot)
    async with service.uploads.received(image) as picture:
        vector, _ = await service.uploads.embedded(picture, served, newest=False)
    return await similar_answer(service, served, snapshot, vector, options, without or [], facts, started)


@router.post("/facts", response_model=FactsAnswer, summary="The facts that a picture shows")
async def facts_of(
    service: TheService,
    image: Annotated[UploadFile, File(description="The picture.")],
    index: Annotated[str | None, Form(max_length=200)] = None,
    k: Annotated[int, Form(ge=1, le=100)] = 10,
) -> Response:
    """The known facts that a picture shows, best first."""
    served = service.catalog.find(index)
    snapshot = served.current()
    async with service.uploads.received(image) as picture:
        vector, _ = await service.uploads.embedded(picture, served, newest=False)
    found = await service.others.run(snapshot.index.facts_of, vector, k)
    return json_response({"index": served.name, "facts": shown(found)})
