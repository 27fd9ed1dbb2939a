"""Errors as problem+json (RFC 9457): a status and one sentence."""

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response

from factlearn.errors import FactlearnError
from factlearn.server.shapes.base import Problem

MEDIA_TYPE = "application/problem+json"
_LONGEST = 500
log = logging.getLogger("factlearn.server")


class ServiceError(Exception):
    """A request that is refused, with its status and a sentence for the client."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})


def busy(what: str, seconds: int = 1) -> ServiceError:
    """The service has enough to do; the client is told when to come back."""
    return ServiceError(503, f"{what}; try again in {seconds} s.", {"Retry-After": str(seconds)})


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """The response for an error."""
    title = HTTPStatus(status).phrase
    sentence = detail if len(detail) <= _LONGEST else detail[:_LONGEST] + "…"
    body = Problem(title=title, status=status, detail=sentence)
    clean = {**body.model_dump(), "detail": sentence.encode("utf-8", "replace").decode()}
    return JSONResponse(clean, status, dict(headers or {}), MEDIA_TYPE)


def of_validation(error: RequestValidationError) -> str:
    """One sentence about the first parameter that does not fit."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    return f"{place}: {first['msg']}."


def install(app: FastAPI) -> None:
    """Have every error of an app answered as problem+json."""

    @app.exception_handler(ServiceError)
    async def refused(request: Request, error: ServiceError) -> Response:
        return problem(error.status, error.detail, error.headers)

    @app.exception_handler(FactlearnError)
    async def mistaken(request: Request, error: FactlearnError) -> Response:
        return problem(400, str(error))

    @app.exception_handler(OSError)
    async def unable(request: Request, error: OSError) -> Response:
        log.warning(json.dumps({"path": request.url.path, "error": str(error)}))
        what = f"The service cannot use a file that it needs ({error.strerror or type(error).__name__})"
        return problem(503, f"{what}; its log says which.", {"Retry-After": "30"})

    @app.exception_handler(RecursionError)
    async def nested(request: Request, error: RecursionError) -> Response:
        return problem(400, "The query or filter is nested too deeply; simplify it.")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return problem(422, of_validation(error))

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        sentence = {
            404: f"There is nothing at {request.url.path}; the API is described at /api/v1/openapi.json.",
            405: f"{request.method} is not possible at {request.url.path}.",
        }.get(error.status_code, f"{error.detail}.")
        return problem(error.status_code, sentence, error.headers)

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> Response:
        return problem(500, "Something went wrong here; the log of the service says what.")


def responses(*statuses: int) -> dict[int | str, dict[str, object]]:
    """How OpenAPI describes the errors that an endpoint may give, besides those that all may."""
    every = {*statuses, 400, 401, 404, 413, 421, 422, 429, 503}
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in sorted(every)}
