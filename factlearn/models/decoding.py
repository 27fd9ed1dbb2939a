"""Decoding images ahead of the network that needs them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from factlearn.errors import ImageError
from factlearn.models.preprocess import PLAIN, Preprocess, View

_BATCHES_AHEAD = 4
_DECODERS = 2

Request = TypeVar("Request")
Answer = TypeVar("Answer")


def ahead(function: Callable[[Request], Answer], requests: Iterable[Request]) -> Iterator[Answer]:
    """Like `map`, but worked out by threads a few requests ahead of the reader."""
    pending: deque[Future[Answer]] = deque()
    with ThreadPoolExecutor(_DECODERS) as pool:
        try:
            for request in requests:
                pending.append(pool.submit(function, request))
                if len(pending) > _BATCHES_AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


@dataclass(frozen=True)
class ImageBatch:
    """Decoded images and their positions in the list that was asked for."""

    positions: list[int]
    images: Tensor


def image_batches(
    paths: Sequence[Path],
    preprocess: Preprocess,
    batch_size: int,
    *,
    view: View = PLAIN,
    on_error: Callable[[ImageError], None] | None = None,
) -> Iterator[ImageBatch]:
    """Decode and normalise images in batches, a few batches ahead, in their order.

    An image that cannot be decoded raises its ImageError, or is reported to `on_error` and left out.
    """

    def decode(positions: range) -> ImageBatch:
        kept, pixels = [], []
        for position in positions:
            try:
                pixels.append(preprocess.pixels(paths[position], view))
                kept.append(position)
            except ImageError as error:
                if on_error is None:
                    raise
                on_error(error)
        stacked = np.stack(pixels) if pixels else np.empty((0, 3, preprocess.size, preprocess.size), np.uint8)
        return ImageBatch(kept, preprocess.normalise(torch.from_numpy(stacked)))

    starts = range(0, len(paths), batch_size)
    yield from ahead(decode, (range(len(paths))[start : start + batch_size] for start in starts))
