"""Decoded images kept in memory: a network that learns down to the pixels looks at every image once per epoch."""

import threading
from collections import OrderedDict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from factlearn.models.preprocess import Preprocess, View

Key = tuple[Path, int, int, Preprocess, View]
_BYTES = 512 * 1024**2


class PixelCache:
    """Pixels as uint8, by file and view, up to a number of bytes; those not used for longest go first.

    A file that was written again since has another size or time, and is decoded again.
    """

    def __init__(self, limit: int = _BYTES) -> None:
        self.limit = limit
        self.held = 0
        self._pixels: OrderedDict[Key, NDArray[np.uint8]] = OrderedDict()
        self._lock = threading.Lock()

    def pixels(self, preprocess: Preprocess, path: Path, view: View) -> NDArray[np.uint8]:
        """What `preprocess.pixels` gives."""
        try:
            about = path.stat()
        except OSError:
            return preprocess.pixels(path, view)  # which says what is wrong with the file
        key = (path, about.st_size, about.st_mtime_ns, preprocess, view)
        with self._lock:
            found = self._pixels.get(key)
            if found is not None:
                self._pixels.move_to_end(key)
                return found
        found = preprocess.pixels(path, view)
        with self._lock:
            if key not in self._pixels:
                self._pixels[key] = found
                self.held += found.nbytes
            while self.held > self.limit:
                self.held -= self._pixels.popitem(last=False)[1].nbytes
        return found


PIXELS = PixelCache()
"""The process's own."""
