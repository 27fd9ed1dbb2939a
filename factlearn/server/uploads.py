"""Pictures that clients send: held in a file whose name the service chose, decoded and embedded by workers."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import UploadFile
from numpy.typing import NDArray

from factlearn.errors import FactlearnError, ImageError
from factlearn.retrieval import Version
from factlearn.server.catalog import Served
from factlearn.server.problems import ServiceError, busy
from factlearn.server.settings import Limits
from factlearn.server.workers import Crashed, TooSlow, WorkerPool

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Picture:
    """An uploaded picture that decodes: where it is, and the suffix of its format."""

    path: Path
    suffix: str


class Uploads:
    """Takes pictures in, and has them embedded."""

    def __init__(self, decoders: WorkerPool, embedders: WorkerPool, spool: Path, limits: Limits) -> None:
        self._decoders = decoders
        self._embedders = embedders
        self._spool = spool
        self._limits = limits

    @asynccontextmanager
    async def received(self, upload: UploadFile) -> AsyncIterator[Picture]:
        """An upload as a file that exists within the block, after it was decoded once.

        Raises:
            ServiceError: if it is too large, takes too long, or is no picture.
        """
        path = self._spool / secrets.token_hex(16)
        try:
            await self._store(upload, path)
            yield Picture(path, await self._suffix(path))
        finally:
            with suppress(OSError):
                path.unlink()

    async def _store(self, upload: UploadFile, path: Path) -> None:
        size = 0
        with open(path, "xb") as stream:
            while part := await upload.read(_CHUNK):
                size += len(part)
                if size > self._limits.upload_bytes:
                    raise ServiceError(413, f"The picture has more than {self._limits.upload_bytes:,} bytes.")
                stream.write(part)
        if not size:
            raise ServiceError(422, "The picture is empty.")

    async def _suffix(self, path: Path) -> str:
        try:
            found, _ = await self._decoders.call(
                "check", self._limits.decode_seconds, path=str(path), max_pixels=self._limits.upload_pixels
            )
        except TooSlow:
            raise ServiceError(422, "The picture takes too long to decode.") from None
        except Crashed:
            raise ServiceError(422, "The picture cannot be decoded.") from None
        except FactlearnError as error:
            sentence = str(error).replace(f"The image {path}", "The picture").replace(f"The file {path}", "The file")
            raise ServiceError(422, sentence.replace(str(path), "The picture")) from None
        return str(found["suffix"])

    async def embedded(self, picture: Picture, served: Served, *, newest: bool) -> tuple[NDArray[np.float32], Version]:
        """A picture's vector [3, D], by the model that made the index's vectors, or by its run's newest.

        Raises:
            ServiceError: if the run is not known or foreign to the index, or it takes too long.
        """
        if served.run is None:
            raise ServiceError(
                409, f"The run that made {served.name} is not known (yet); name it with --run, or wait a moment."
            )
        stage = served.run["stages"] if newest else served.run["search_stage"]
        place: dict[str, Any] = {"folder": served.run["folder"], "stage": stage, "path": str(picture.path)}
        try:
            about, raw = await self._embedders.call("embed", self._limits.embed_seconds, **place)
        except TooSlow:
            raise busy("The picture took too long to embed", 5) from None
        except Crashed:
            raise busy("The picture could not be embedded", 5) from None
        except ImageError:
            raise ServiceError(422, "The picture cannot be decoded.") from None
        except FactlearnError as error:
            raise ServiceError(409, str(error)) from None
        vector = np.frombuffer(raw, "<f4").reshape(about["shape"]).astype(np.float32)
        taught = about["version"].pop("taught")
        version = Version(**about["version"], taught=None if taught is None else tuple(taught))
        try:
            served.current().index.check_version(version)
        except FactlearnError as error:
            raise ServiceError(409, served.said(str(error))) from None
        return vector, version
