import contextlib
import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from factlearn.errors import DatasetError, ImageError
from factlearn.images import find_images, load_image

PICTURE = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)


def _saved(folder: Path, image: Image.Image, name: str, **options: object) -> Path:
    path = folder / name
    image.save(path, **options)  # type: ignore[arg-type]
    return path


def _pixels(path: Path) -> np.ndarray:
    image = load_image(path)
    assert image.mode == "RGB"
    return np.asarray(image)


def _png_bytes(width: int, height: int, depth: int, colour: int, rows: bytes) -> bytes:
    """A PNG written by hand, for forms that Pillow does not write."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.tif", "a.ppm", "a.JPG.png"])
def test_plain_rgb_is_read_as_it_is(tmp_path: Path, name: str) -> None:
    assert np.array_equal(_pixels(_saved(tmp_path, Image.fromarray(PICTURE), name)), PICTURE)


@settings(deadline=None, max_examples=30)
@given(arrays(np.uint8, st.tuples(st.integers(1, 5), st.integers(1, 5), st.just(4))))
def test_transparent_pixels_lie_over_white(tmp_path_factory: pytest.TempPathFactory, rgba: np.ndarray) -> None:
    path = _saved(tmp_path_factory.mktemp("rgba"), Image.fromarray(rgba), "a.png")
    alpha = rgba[..., 3:].astype(float) / 255
    expected = rgba[..., :3] * alpha + 255 * (1 - alpha)
    assert np.abs(_pixels(path) - expected).max() <= 1


def test_grey_with_alpha_lies_over_white(tmp_path: Path) -> None:
    grey = np.array([[[0, 0], [0, 255], [100, 255]]], dtype=np.uint8)
    pixels = _pixels(_saved(tmp_path, Image.fromarray(grey), "a.png"))
    assert pixels[0].tolist() == [[255] * 3, [0] * 3, [100] * 3]


def test_a_transparent_palette_entry_is_white(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.putpixel((1, 0), 1)
    for name in ("a.png", "a.gif"):
        pixels = _pixels(_saved(tmp_path, image, name, transparency=0))
        assert pixels[0].tolist() == [[255, 255, 255], [0, 0, 255]]


def test_a_transparent_colour_of_an_rgb_png_is_white(tmp_path: Path) -> None:
    image = Image.fromarray(np.array([[[1, 2, 3], [9, 9, 9]]], dtype=np.uint8))
    pixels = _pixels(_saved(tmp_path, image, "a.png", transparency=(1, 2, 3)))
    assert pixels[0].tolist() == [[255, 255, 255], [9, 9, 9]]


def test_a_palette_without_transparency_keeps_its_colours(tmp_path: Path) -> None:
    image = Image.new("P", (1, 1))
    image.putpalette([10, 20, 30])
    assert _pixels(_saved(tmp_path, image, "a.png"))[0, 0].tolist() == [10, 20, 30]


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_sixteen_bit_grey_is_scaled_not_clipped(tmp_path: Path, name: str) -> None:
    values = np.array([[0, 257, 32768, 65535]], dtype=np.uint16)
    pixels = _pixels(_saved(tmp_path, Image.fromarray(values), name))
    assert pixels[0, :, 0].tolist() == [0, 1, 128, 255]


def test_sixteen_bit_colour_is_scaled_not_clipped(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(_png_bytes(1, 1, 16, 2, b"\0" + struct.pack(">HHH", 0, 32768, 65535)))
    assert _pixels(path)[0, 0].tolist() == [0, 128, 255]


def test_floating_point_grey_is_scaled_from_its_range(tmp_path: Path) -> None:
    pixels = _pixels(_saved(tmp_path, Image.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32)), "a.tif"))
    assert pixels[0, :, 0].tolist() == [0, 128, 255]


def test_one_bit_images_are_black_and_white(tmp_path: Path) -> None:
    image = Image.new("1", (2, 1))
    image.putpixel((1, 0), 1)
    assert _pixels(_saved(tmp_path, image, "a.png"))[0, :, 0].tolist() == [0, 255]


@pytest.mark.parametrize("name", ["a.jpg", "a.tif"])
def test_cmyk_becomes_the_colour_it_prints(tmp_path: Path, name: str) -> None:
    image = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    red = _pixels(_saved(tmp_path, image, name))[4, 4]
    assert red[0] > 240
    assert red[1:].max() < 15


def test_an_animation_gives_its_first_frame(tmp_path: Path) -> None:
    first, second = Image.new("RGB", (4, 4), (255, 0, 0)), Image.new("RGB", (4, 4), (0, 0, 255))
    for name in ("a.gif", "a.webp", "a.png"):
        options = {"lossless": True} if name.endswith("webp") else {}
        path = _saved(tmp_path, first, name, save_all=True, append_images=[second], **options)
        assert _pixels(path)[0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif", "a.webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_is_undone(tmp_path: Path, name: str, orientation: int) -> None:
    upright = Image.new("RGB", (16, 24), (255, 0, 0))
    upright.paste((0, 255, 0), (0, 0, 8, 24))
    upright.paste((0, 0, 255), (0, 0, 8, 12))
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = upright.transpose(undo[orientation]) if orientation in undo else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = _pixels(_saved(tmp_path, stored, name, exif=exif, quality=95)).astype(int)
    assert pixels.shape == (24, 16, 3)
    expected = np.asarray(upright).astype(int)
    for row, column in ((4, 3), (20, 3), (4, 12), (20, 12)):
        assert np.abs(pixels[row, column] - expected[row, column]).max() < 40


def test_broken_exif_does_not_lose_the_picture(tmp_path: Path) -> None:
    path = _saved(tmp_path, Image.fromarray(PICTURE), "a.png", exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    assert np.array_equal(_pixels(path), PICTURE)


def test_a_decompression_bomb_is_refused_from_its_header(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(_png_bytes(20_000, 8_000, 8, 2, b""))
    with pytest.raises(ImageError, match=r"bomb\.png has 20000 x 8000 pixels"):
        load_image(path)
    path.write_bytes(_png_bytes(60_000, 60_000, 8, 2, b""))
    with pytest.raises(ImageError, match=r"bomb\.png"):
        load_image(path)


def test_the_size_limit_is_inclusive(tmp_path: Path) -> None:
    path = _saved(tmp_path, Image.new("RGB", (10, 10)), "a.png")
    assert load_image(path, max_pixels=100).size == (10, 10)
    with pytest.raises(ImageError, match="raise max_pixels"):
        load_image(path, max_pixels=99)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP"])
def test_a_file_cut_in_the_middle_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(noise).save(stream, kind)
    path = tmp_path / f"cut.{kind.lower()}"
    path.write_bytes(stream.getvalue()[: len(stream.getvalue()) // 2])
    with pytest.raises(ImageError, match=r"cut\."):
        load_image(path)


@settings(deadline=None, max_examples=150)
@given(kind=st.sampled_from(["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP"]), data=st.data())
def test_damage_gives_a_picture_or_an_image_error(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    stream = io.BytesIO()
    Image.fromarray(PICTURE).save(stream, kind)
    content = bytearray(stream.getvalue())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=5)):
        content[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damage") / "a.img"
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    with contextlib.suppress(ImageError):
        assert load_image(path, max_pixels=1_000_000).mode == "RGB"


def test_what_is_not_an_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.jpg").write_text("hello")
    (tmp_path / "page.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    for name, what in [
        ("empty.png", "is empty"),
        ("text.jpg", "not an image"),
        ("page.png", "not an image"),
        ("missing.png", "does not exist"),
        (".", "is a folder"),
    ]:
        with pytest.raises(ImageError, match=what) as caught:
            load_image(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    path = _saved(tmp_path, Image.fromarray(PICTURE), "secret.png")
    path.chmod(0)
    with pytest.raises(ImageError, match="may not be read"):
        load_image(path)


def test_images_of_a_folder_are_found_recursively_and_in_order(tmp_path: Path) -> None:
    for name in ("b/2.PNG", "b/10.jpeg", "a.jpg", "b.webp", "notes.txt", ".hidden/x.png", "b/._2.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [path.relative_to(tmp_path).as_posix() for path in find_images(tmp_path)]
    assert found == ["a.jpg", "b.webp", "b/10.jpeg", "b/2.PNG"]


def test_a_folder_without_images_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DatasetError, match="holds no images"):
        find_images(tmp_path)
    with pytest.raises(DatasetError, match="does not exist"):
        find_images(tmp_path / "nowhere")
    with pytest.raises(DatasetError, match="is not a folder"):
        find_images(tmp_path / "file")
