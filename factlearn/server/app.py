"""The app: endpoints, errors, the guard around them, and the service's life."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from factlearn import __version__
from factlearn.server import pages, problems
from factlearn.server.guard import Guard
from factlearn.server.routes import about, images, runs, search
from factlearn.server.service import Service
from factlearn.server.settings import Settings
from factlearn.server.shapes.base import Problem

API = "/api/v1"
_ABOUT = """Search images by fact: `<person, riding, *>` or a plain sentence.

Reading is open unless the service was started otherwise; changing anything needs `Authorization: Bearer TOKEN`.
Errors are `application/problem+json` with one sentence in `detail`; with 429 and 503, `Retry-After` says when to come
back."""


def create_app(settings: Settings) -> FastAPI:
    """The ASGI app of a service."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    service = Service(settings)
    app = FastAPI(
        title="factlearn",
        version=__version__,
        description=_ABOUT,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # its page loads scripts from another host
        redoc_url=None,
        lifespan=life,
        separate_input_output_schemas=False,
        redirect_slashes=False,
    )
    app.state.service = service
    problems.install(app)
    for module in (about, search, images, runs):
        app.include_router(module.router, prefix=API)
    app.include_router(about.health)
    app.include_router(pages.router)
    app.add_middleware(Guard, settings=settings, metrics=service.metrics, doorkeeper=service.doorkeeper)
    _describe_problems(app)
    return app


def _describe_problems(app: FastAPI) -> None:
    """Name the shape of errors in the OpenAPI document; no endpoint returns it, so it is not found by itself."""
    document = app.openapi()
    document["components"]["schemas"]["Problem"] = Problem.model_json_schema()
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for methods in document["paths"].values():
        for operation in methods.values():
            if "(token)" in operation.get("summary", ""):
                operation["security"] = [{"token": []}]
