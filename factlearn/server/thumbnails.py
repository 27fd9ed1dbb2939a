"""Small versions of indexed pictures, decoded by a worker and kept in memory."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from factlearn import places
from factlearn.errors import FactlearnError
from factlearn.server.problems import ServiceError, busy
from factlearn.server.settings import Limits
from factlearn.server.workers import Crashed, TooSlow, WorkerPool

SIZES = (64, 128, 256, 512, 1024)
_MEDIA = {"WEBP": "image/webp", "JPEG": "image/jpeg"}
_PIXELS = 120_000_000


@dataclass(frozen=True)
class Thumbnail:
    """An encoded picture, and a tag that changes when the original does."""

    content: bytes
    media_type: str
    etag: str


class Thumbnails:
    """Makes thumbnails and remembers the last ones, up to a number of bytes."""

    def __init__(self, decoders: WorkerPool, limits: Limits) -> None:
        self._decoders = decoders
        self._limits = limits
        self._kept: OrderedDict[str, Thumbnail] = OrderedDict()
        self._bytes = 0

    def tag(self, path: str, size: int, webp: bool) -> str:
        """The tag of a thumbnail, without making it.

        Raises:
            ServiceError: if the file is gone.
        """
        try:
            version = "" if places.is_remote(path) else str(places.status(path))  # a store would be waited for
        except (OSError, ValueError, FactlearnError):
            raise ServiceError(404, "The picture's file is no longer where it was indexed.") from None
        about = f"{path}\0{version}\0{size}\0{webp}"
        return f'"{hashlib.sha256(about.encode("utf-8", "surrogateescape")).hexdigest()[:24]}"'

    async def get(self, path: str, size: int, webp: bool) -> Thumbnail:
        """The thumbnail of a file that an index names.

        Raises:
            ServiceError: if it cannot be made.
        """
        tag = self.tag(path, size, webp)
        if tag in self._kept:
            self._kept.move_to_end(tag)
            return self._kept[tag]
        form = "WEBP" if webp else "JPEG"
        options: dict[str, Any] = {"path": path, "size": size, "format": form, "max_pixels": _PIXELS}
        try:
            _, content = await self._decoders.call("thumbnail", self._limits.decode_seconds, **options)
        except TooSlow:
            raise ServiceError(422, "The picture takes too long to decode.") from None
        except Crashed:
            raise busy("The picture could not be decoded") from None
        except FactlearnError:
            raise ServiceError(422, "The picture's file cannot be decoded.") from None
        made = Thumbnail(content, _MEDIA[form], tag)
        self._keep(made)
        return made

    def _keep(self, made: Thumbnail) -> None:
        self._kept[made.etag] = made
        self._bytes += len(made.content)
        while self._bytes > self._limits.thumbnail_bytes and self._kept:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped.content)
