"""The one image decoder: any image becomes 8-bit RGB, upright, on white, or an error that names the file."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from factlearn import places
from factlearn.errors import DatasetError, ImageError, StorageError

DEFAULT_MAX_PIXELS = 120_000_000
SUFFIXES = frozenset({
    ".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpeg", ".jpg", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp",
})  # fmt: skip
# Only plain raster formats: some of the others pass the file to external programs.
_WANTED = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TIFF", "WEBP")
Image.init()  # registers every format that this build of Pillow has
_FORMATS = tuple(name for name in _WANTED if name in Image.OPEN)
_ORIENTATION = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def load_image(path: Path | str, *, max_pixels: int = DEFAULT_MAX_PIXELS) -> Image.Image:
    """Decode an image to RGB.

    Transparency is composited onto white, the EXIF orientation is applied, 16-bit and floating-point greys are scaled
    to 8 bits, CMYK and palettes are converted, and of an animation the first frame is taken.

    Raises:
        ImageError: if the file is missing, unreadable, not an image, truncated, or larger than `max_pixels`
            (checked from the header, before anything is decoded).
        StorageError: if it lies in object storage that cannot be asked, which says nothing about the image.
    """
    path = Path(path)
    try:
        with places.open_file(path) as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns about large images and odd metadata; we check ourselves
            return _decode(stream, path, max_pixels)
    except (ImageError, StorageError):
        raise
    except DatasetError as error:  # the tar that it is in
        raise ImageError(str(error)) from error
    except FileNotFoundError:
        raise ImageError(f"The image {path} does not exist.") from None
    except IsADirectoryError:
        raise ImageError(f"{path} is a folder, not an image.") from None
    except PermissionError:
        raise ImageError(f"The image {path} may not be read; check its permissions.") from None
    except Image.DecompressionBombError:
        raise ImageError(f"The image {path} is larger than Pillow's limit against decompression bombs.") from None
    except MemoryError:
        raise ImageError(f"The image {path} does not fit into memory.") from None
    except Exception as error:  # damaged files make decoders fail in many ways
        raise ImageError(f"The image {path} is damaged or truncated ({error or type(error).__name__}).") from error


def _decode(stream: object, path: Path, max_pixels: int) -> Image.Image:
    try:
        image = Image.open(stream, formats=_FORMATS)  # type: ignore[arg-type]
    except UnidentifiedImageError:
        what = "is empty (0 bytes)" if places.status(path).size == 0 else "is not an image of a known format"
        raise ImageError(f"The file {path} {what}.") from None
    width, height = image.size
    if width * height > max_pixels:
        raise ImageError(
            f"The image {path} has {width} x {height} pixels, more than the limit of {max_pixels:,}; "
            f"scale it down or raise max_pixels."
        )
    image.load()
    return _upright(_rgb(image), _orientation(image))


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # broken EXIF: no orientation, but the pixels are intact
        return 1


def _upright(image: Image.Image, orientation: int) -> Image.Image:
    return image.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else image


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB" and not image.has_transparency_data:
        return image.copy()
    if image.mode == "F" or image.mode.startswith("I"):
        return _eight_bits(image).convert("RGB")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, layer).convert("RGB")
    return image.convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scale deep greys: 16-bit from 0..65535, 32-bit from its full range, floats from 0..1 (else 0..255)."""
    values = np.nan_to_num(np.asarray(image).astype(np.float64))
    highest = values.max(initial=0.0)
    if image.mode == "F":
        scale = 255.0 if highest <= 1.0 else 1.0
    else:
        scale = 255.0 / (65535.0 if highest <= 65535 else 2.0**31 - 1)
    return Image.fromarray(np.clip(np.rint(values * scale), 0, 255).astype(np.uint8))


def find_images(folder: Path | str, *, on_error: Callable[[OSError], None] | None = None) -> list[Path]:
    """Every image below a folder, by suffix, sorted by path; hidden files and folders are skipped.

    The folder may be a tar, or an address in object storage. Where it holds tars and no image, theirs are found.

    Args:
        on_error: called for each folder below that cannot be read, which is then left out.

    Raises:
        DatasetError: if the folder is missing, unreadable, or holds no image.
    """
    folder = Path(folder)
    if not places.is_folder(folder):
        raise DatasetError(f"The image folder {folder} {'is not a folder' if folder.exists() else 'does not exist'}.")

    def refuse(error: OSError) -> None:
        raise DatasetError(f"The folder {error.filename} cannot be read: {error.strerror}.") from error

    below = [path for path in places.files_below(folder, on_error or refuse) if _is_image(path) or places.is_tar(path)]
    found = [path for path in below if _is_image(path)]
    if not found:  # then the tars are the images' place, not a copy of them
        found = [path for tar in below for path in places.files_below(tar, on_error or refuse) if _is_image(path)]
    if not found:
        where = places.written(folder) if places.is_remote(folder) else folder
        raise DatasetError(f"The folder {where} holds no images ({', '.join(sorted(SUFFIXES))}).")
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES
