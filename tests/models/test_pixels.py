import os

import numpy as np
import pytest
from PIL import Image

from factlearn.errors import ImageError
from factlearn.models.pixels import PixelCache
from factlearn.models.preprocess import PLAIN, Preprocess, View

SMALL = Preprocess(8, "squash")


@pytest.fixture
def picture(tmp_path):
    def draw(name, colour):
        Image.new("RGB", (10, 10), colour).save(tmp_path / name)
        return tmp_path / name

    return draw


def test_kept_pixels_are_the_decoded_ones_of_each_view(picture):
    cache, path = PixelCache(), picture("a.png", "red")
    for view in (PLAIN, View(flip=True), PLAIN):
        assert np.array_equal(cache.pixels(SMALL, path, view), SMALL.pixels(path, view))
    assert cache.pixels(SMALL, path, PLAIN) is cache.pixels(SMALL, path, PLAIN)
    assert cache.held == 2 * 3 * 8 * 8


def test_an_image_that_was_written_again_is_decoded_again(picture):
    cache, path = PixelCache(), picture("a.png", "red")
    before = cache.pixels(SMALL, path, PLAIN)
    picture("a.png", "blue")
    os.utime(path, (1, 1))
    assert not np.array_equal(cache.pixels(SMALL, path, PLAIN), before)


def test_what_was_not_used_for_longest_goes_first(picture):
    cache = PixelCache(limit=2 * 3 * 8 * 8)
    paths = [picture(f"{number}.png", "red") for number in range(3)]
    first, second = (cache.pixels(SMALL, path, PLAIN) for path in paths[:2])
    assert cache.pixels(SMALL, paths[0], PLAIN) is first
    cache.pixels(SMALL, paths[2], PLAIN)
    assert cache.held == cache.limit
    assert cache.pixels(SMALL, paths[0], PLAIN) is first
    assert cache.pixels(SMALL, paths[1], PLAIN) is not second


def test_a_missing_image_is_the_decoders_error(tmp_path):
    with pytest.raises(ImageError):
        PixelCache().pixels(SMALL, tmp_path / "gone.png", PLAIN)
