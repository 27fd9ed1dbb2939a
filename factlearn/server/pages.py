"""The web page: the files in `page/`, and nothing else, by name."""

import hashlib
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from factlearn.server.problems import ServiceError

FOLDER = Path(__file__).parent / "page"
_MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webp": "image/webp",
    ".ico": "image/x-icon",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
}
router = APIRouter(include_in_schema=False)


def page_files() -> dict[str, Path]:
    """The files that may be served, by name: listed once, so that no name from a client becomes a path."""
    return {path.name: path for path in FOLDER.iterdir() if path.is_file() and path.suffix in _MEDIA}


_FILES = page_files()


def _file(name: str, request: Request) -> Response:
    path = _FILES.get(name)
    if path is None:
        raise ServiceError(404, f"There is nothing at /{name}; the API is described at /api/v1/openapi.json.")
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:24]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, _MEDIA[path.suffix])


@router.get("/")
async def index(request: Request) -> Response:
    """The page."""
    return _file("index.html", request)


@router.get("/{name}")
async def file(name: str, request: Request) -> Response:
    """A file of the page."""
    return _file(name, request)
