"""The worker that decodes pictures: little memory, no files to write, killed when it takes too long."""

import io
import resource
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from factlearn.server.workers import serve_operations

_MEMORY = 2 << 30
_QUALITY = 82
_SUFFIXES = {
    "AVIF": ".avif", "BMP": ".bmp", "GIF": ".gif", "JPEG": ".jpg", "JPEG2000": ".jp2", "MPO": ".jpg", "PNG": ".png",
    "PPM": ".ppm", "TIFF": ".tif", "WEBP": ".webp",
}  # fmt: skip


def check(path: str, max_pixels: int) -> tuple[Any, bytes]:
    """Decode a picture completely; its size and the suffix of its format."""
    from PIL import Image

    from factlearn.images import load_image

    image = load_image(path, max_pixels=max_pixels)
    with Image.open(path, formats=tuple(name for name in _SUFFIXES if name in Image.OPEN)) as opened:
        suffix = _SUFFIXES[str(opened.format)]
    return {"width": image.width, "height": image.height, "suffix": suffix}, b""


def thumbnail(path: str, size: int, format: str, max_pixels: int) -> tuple[Any, bytes]:
    """A picture scaled to fit a square, encoded anew."""
    from PIL import Image

    from factlearn.images import load_image

    image = load_image(Path(path), max_pixels=max_pixels)
    image.thumbnail((size, size), Image.Resampling.LANCZOS, reducing_gap=2.0)
    out = io.BytesIO()
    image.save(out, format, quality=_QUALITY)
    return {"width": image.width, "height": image.height}, out.getvalue()


def work(connection: Connection) -> None:
    """The worker's whole life."""
    import factlearn.images  # noqa: F401  (before memory is bounded, and before the first picture waits for it)

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    serve_operations(connection, {"check": check, "thumbnail": thumbnail})
