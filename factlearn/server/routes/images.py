"""Single images: what is known, thumbnails, neighbours; adding, removing, downloading."""

import json
import tempfile
import time
from collections.abc import Iterator
from typing import IO, Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, File, Form, Path, Query, Request, UploadFile
from starlette.responses import Response, StreamingResponse

from factlearn.errors import FactlearnError
from factlearn.facts import Fact
from factlearn.retrieval.negation import MARGIN
from factlearn.retrieval.options import filter_of
from factlearn.retrieval.rows import unpack
from factlearn.server import downloads
from factlearn.server.answers import image_info, json_response, shown
from factlearn.server.asking import Options, blamed, parse_weights
from factlearn.server.problems import ServiceError, responses
from factlearn.server.routes.search import Margin, Text, Threshold, Unwanted, similar_answer
from factlearn.server.service import Service, TheService
from factlearn.server.shapes.images import Added, Download, ImageDetail, ImagesAnswer, Removed
from factlearn.server.shapes.search import SimilarAnswer
from factlearn.server.snapshots import Snapshot
from factlearn.server.thumbnails import SIZES

router = APIRouter(tags=["images"], responses=responses(408, 409))
ImageId = Annotated[str, Path(max_length=2000, description="Percent-encoded.", examples=["apple%2F1f6b4.png"])]
IndexName = Annotated[str | None, Query(max_length=200)]
StageNumber = Annotated[int | None, Query(ge=1, le=10_000)]
_LONGEST_ID = 500
_IN_MEMORY = 8 << 20


def _decoded(image: str) -> str:
    return unquote(image, errors="replace")


async def _item(service: Service, snapshot: Snapshot, image: str) -> dict[str, Any]:
    item = await service.others.run(snapshot.item, image)
    if item is None:
        raise ServiceError(404, f"The index holds no image {image!r}.")
    return item


@router.get("/images", response_model=ImagesAnswer, summary="All images, page by page")
async def images(
    service: TheService,
    index: IndexName = None,
    where: Annotated[str | None, Query(max_length=2000)] = None,
    offset: Annotated[int, Query(ge=0, le=100_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """The images that pass a filter, in the order of the index."""
    served = service.catalog.find(index)
    snapshot = served.current()
    Options(where=where).check(snapshot)

    def look() -> tuple[Any, int]:
        keys = snapshot.index.store.keys(filter_of(where))
        return snapshot.index.store.items(keys[offset : offset + limit]), len(keys)

    try:
        items, total = await service.others.run(look)
    except FactlearnError as error:
        raise await blamed(service, served, error) from None
    paths = service.settings.loopback
    return json_response({
        "index": served.name,
        "images": [image_info(served.name, item, paths=paths) for item in items],
        "offset": offset,
        "next": offset + limit if offset + limit < total else None,
        "total": total,
    })  # fmt: skip


@router.get("/images/{image:path}/thumb", summary="A small version", response_class=Response, responses={
    200: {"content": {"image/webp": {}, "image/jpeg": {}}, "description": "The picture."},
    304: {"description": "Not modified"},
})  # fmt: skip
async def thumb(
    service: TheService,
    request: Request,
    image: ImageId,
    index: IndexName = None,
    size: Annotated[int, Query(json_schema_extra={"enum": list(SIZES)})] = 256,
) -> Response:
    """A thumbnail, as WebP if the client accepts it, otherwise JPEG."""
    if size not in SIZES:
        raise ServiceError(422, f"size must be one of {', '.join(map(str, SIZES))}.")
    snapshot = service.catalog.find(index).current()
    item = await _item(service, snapshot, _decoded(image))
    webp = "image/webp" in request.headers.get("accept", "")
    tag = service.thumbnails.tag(item["path"], size, webp)
    headers = {"ETag": tag, "Cache-Control": "private, max-age=3600", "Vary": "Accept"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    made = await service.thumbnails.get(item["path"], size, webp)
    return Response(made.content, 200, headers, made.media_type)


@router.get("/images/{image:path}/similar", response_model=SimilarAnswer, summary="Images like one of the index")
async def similar(
    service: TheService,
    image: ImageId,
    index: IndexName = None,
    stage: StageNumber = None,
    k: Annotated[int, Query(ge=1, le=1000)] = 24,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    where: Annotated[str | None, Query(max_length=2000)] = None,
    weights: Annotated[str | None, Query(max_length=100)] = None,
    without: Annotated[Unwanted, Query(alias="not")] = None,
    margin: Annotated[Margin, Query()] = MARGIN,
    threshold: Annotated[Threshold, Query()] = None,
    facts: Annotated[int, Query(ge=1, le=100)] = 5,
) -> Response:
    """The images most similar to an indexed one, which itself comes first."""
    started = time.perf_counter()
    served = service.catalog.find(index, stage)
    snapshot = served.current()
    vector = await _vector(service, snapshot, _decoded(image))
    options = Options(k, offset, where, parse_weights(weights), threshold, margin)
    return await similar_answer(service, served, snapshot, vector, options, without or [], facts, started)


async def _vector(service: Service, snapshot: Snapshot, image: str) -> Any:
    def look() -> Any:
        keys = snapshot.key(image)
        return unpack(snapshot.index.store.take(keys))[0] if len(keys) else None

    vector = await service.others.run(look)
    if vector is None:
        raise ServiceError(404, f"The index holds no image {image!r}.")
    return vector


@router.get("/images/{image:path}", response_model=ImageDetail, summary="What is known about an image")
async def one(service: TheService, image: ImageId, index: IndexName = None, stage: StageNumber = None) -> Response:
    """An image's label, metadata and file, and the facts that its vector shows."""
    served = service.catalog.find(index, stage)
    snapshot = served.current()
    item = await _item(service, snapshot, _decoded(image))
    vector = await _vector(service, snapshot, item["id"])
    found = await service.others.run(snapshot.index.facts_of, vector, 10) if snapshot.index.facts else []
    about = image_info(served.name, item, paths=service.settings.loopback)
    return json_response({"index": served.name, **about, "facts": shown(found)})


@router.post("/images", status_code=201, response_model=Added, summary="Add an image (token)")
async def add(
    service: TheService,
    image: Annotated[UploadFile, File(description="The picture.")],
    index: Annotated[str | None, Form(max_length=200)] = None,
    id: Annotated[str | None, Form(max_length=_LONGEST_ID)] = None,
    fact: Annotated[list[Text] | None, Form(max_length=20, description="What it is known to show.")] = None,
    metadata: Annotated[str | None, Form(max_length=20_000, description="A JSON object of texts.")] = None,
) -> Response:
    """Embed a picture, store it and add it to the index; responds once it is committed."""
    served = service.catalog.find(index)
    snapshot = served.current()
    labels = [Fact.parse(each) for each in fact or () if each]
    columns = _metadata(metadata, image.filename)
    name = _checked_id(id)
    async with service.uploads.received(image) as picture:
        embedded = await service.uploads.embedded(picture, served, newest=True)
        path, file = await service.writers.keep(served, picture)
    name = name or f"uploads/{path.name}"
    replaced = await service.writers.add(served, name, path, file, embedded, labels, columns)
    snapshot = served.current()
    found = await service.others.run(snapshot.index.facts_of, embedded[0], 5) if snapshot.index.facts else []
    answer = {"index": served.name, "id": name, "replaced": replaced, "images": len(snapshot.index)}
    return json_response({**answer, "facts": shown(found)}, 201)


def _metadata(text: str | None, filename: str | None) -> dict[str, str]:
    """What a client says about a picture, with the name it gave the file."""
    try:
        given = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()) or len(given) > 50:
        raise ServiceError(422, "metadata must be a JSON object of at most 50 texts.")
    name = {"name": filename[-200:]} if filename and "name" not in given else {}
    columns = {**name, **given}
    if not all(_is_plain(each) for pair in columns.items() for each in pair) or "" in columns:
        raise ServiceError(422, "metadata and file names must be Unicode text without control characters.")
    return columns


def _checked_id(name: str | None) -> str | None:
    if name is not None and (not name.strip() or not _is_plain(name)):
        raise ServiceError(422, "The id must be Unicode text without control characters.")
    return name


def _is_plain(text: str) -> bool:
    return not any(ord(letter) < 32 or ord(letter) == 127 or 0xD800 <= ord(letter) <= 0xDFFF for letter in text)


@router.delete("/images/{image:path}", response_model=Removed, summary="Remove an image (token)")
async def remove(service: TheService, image: ImageId, index: IndexName = None) -> Response:
    """Remove an image from the index; responds once it is committed. The file is deleted only if it was uploaded."""
    served = service.catalog.find(index)
    name = _decoded(image)
    await _item(service, served.current(), name)
    count = await service.writers.remove(served, name)
    return json_response({"index": served.name, "id": name, "removed": count, "images": len(served.current().index)})


@router.post("/download", response_class=Response, summary="Chosen images as CSV, JSON or zip", responses={
    200: {"content": {media: {} for media in downloads.MEDIA.values()}, "description": "The file."},
})  # fmt: skip
async def download(service: TheService, chosen: Download) -> Response:
    """Download chosen images as a list, or their files if they have not changed since indexing."""
    served = service.catalog.find(chosen.index)
    snapshot = served.current()
    items = [await _item(service, snapshot, image) for image in dict.fromkeys(chosen.ids)]
    headers = {"Content-Disposition": f'attachment; filename="factlearn.{chosen.format}"'}
    paths = service.settings.loopback
    if chosen.format == "zip":
        made = await service.others.run(_zipped, items)
        return StreamingResponse(made, 200, headers, downloads.MEDIA["zip"])
    content = (downloads.as_csv if chosen.format == "csv" else downloads.as_json)(items, paths=paths)
    return Response(content, 200, headers, downloads.MEDIA[chosen.format])


def _zipped(items: list[dict[str, Any]]) -> Iterator[bytes]:
    out: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  (closed when it is sent)
    downloads.write_zip(items, out)
    out.seek(0)

    def parts() -> Iterator[bytes]:
        with out:
            while part := out.read(1 << 16):
                yield part

    return parts()
