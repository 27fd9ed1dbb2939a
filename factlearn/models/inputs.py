"""What the learning part of the network is fed: kept activations, or images decoded as they are needed.

Both forms give the same batches for the same positions and views; only the time they take differs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from factlearn import processes
from factlearn.models.activations import ActivationStore
from factlearn.models.decoding import ahead
from factlearn.models.network import TwoPartModel
from factlearn.models.pixels import PIXELS
from factlearn.models.preprocess import PLAIN, Preprocess, View
from factlearn.processes import Elsewhere

Positions = NDArray[np.int64]
_BATCH = 64
Item = TypeVar("Item")


class Inputs(Protocol):
    """Inputs of the learning part, for a fixed list of images."""

    def batches(self, requests: Iterable[tuple[Positions, Positions]]) -> Iterator[Tensor]:
        """A batch for each request of positions in the list and the number of the view each is seen under."""

    def __len__(self) -> int: ...


class StoredInputs:
    """Activations of the frozen prefix for every view, from one `ActivationStore` per backbone, side by side."""

    def __init__(
        self, stores: Sequence[ActivationStore], paths: Sequence[Path], views: Sequence[View], batch_size: int
    ) -> None:
        self._rows = [[store.rows(paths, view, batch_size) for store in stores] for view in views]

    def __len__(self) -> int:
        return len(self._rows[0][0])

    def batches(self, requests: Iterable[tuple[Positions, Positions]]) -> Iterator[Tensor]:
        """Gather kept rows."""
        for positions, views in requests:
            batch: Tensor | None = None
            for number, rows in enumerate(self._rows):
                chosen = np.flatnonzero(views == number)
                if not len(chosen):
                    continue
                part = torch.cat([each[positions[chosen]] for each in rows], dim=1)
                if batch is None:
                    batch = part.new_empty((len(positions), *part.shape[1:]))
                batch[torch.from_numpy(chosen)] = part
            assert batch is not None
            yield batch


class DecodedInputs:
    """Images decoded ahead of need, sent through the frozen prefix if there is one."""

    def __init__(
        self, model: TwoPartModel[Any], preprocess: Preprocess, paths: Sequence[Path], views: Sequence[View]
    ) -> None:
        self._model = model
        self._preprocess = preprocess
        self._paths = paths
        self._views = views

    def __len__(self) -> int:
        return len(self._paths)

    def batches(self, requests: Iterable[tuple[Positions, Positions]]) -> Iterator[Tensor]:
        """Decode, normalise and run the prefix."""
        device = self._model.device
        for pixels in ahead(self._pixels, requests):
            with torch.no_grad():
                batch = self._model.frozen(self._preprocess.normalise(pixels.to(device)))
            yield batch  # outside: a generator's no_grad would reach its reader

    def _pixels(self, request: tuple[Positions, Positions]) -> Tensor:
        wanted = ((self._paths[place], self._views[view]) for place, view in zip(*request, strict=True))
        return torch.from_numpy(np.stack([PIXELS.pixels(self._preprocess, path, view) for path, view in wanted]))


def in_order(inputs: Inputs, batch_size: int) -> Iterator[Tensor]:
    """Every image once, in its order, under the plain view."""
    return inputs.batches((chunk, np.zeros_like(chunk)) for chunk in _chunks(inputs, batch_size))


def shared_in_order(inputs: Inputs, batch_size: int) -> Iterator[Tensor | Elsewhere]:
    """The batches of `in_order` that this process takes; those that others take are not read."""
    chunks = list(_chunks(inputs, batch_size))
    taken = [chunk for place, chunk in enumerate(chunks) if processes.takes(place)]
    batches = iter(inputs.batches((chunk, np.zeros_like(chunk)) for chunk in taken))
    for place, chunk in enumerate(chunks):
        yield next(batches) if processes.takes(place) else Elsewhere(len(chunk))


def labelled(
    read: Callable[[Inputs, int], Iterator[Any]], inputs: Inputs, batch_size: int, *columns: Tensor
) -> Iterator[Any]:
    """What `in_order` or `shared_in_order` reads, each batch with its rows of the columns."""
    for batch, *rows in zip(read(inputs, batch_size), *(each.split(batch_size) for each in columns), strict=True):
        yield batch if isinstance(batch, Elsewhere) else (batch, *rows)


def _chunks(inputs: Inputs, batch_size: int) -> Iterator[Positions]:
    starts = range(0, len(inputs), batch_size)
    return (np.arange(start, min(start + batch_size, len(inputs))) for start in starts)


class Reiterable(Iterable[Item]):
    """An iterable that starts anew each time, from a function that gives an iterator.

    Args:
        start: begins with the first item.
        share: begins with the first, too, and has `Elsewhere` for those that other processes take.
    """

    def __init__(self, start: Callable[[], Iterator[Item]], share: Callable[[], Iterator[Any]] | None = None) -> None:
        self._start = start
        if share:
            self.share = share

    def __iter__(self) -> Iterator[Item]:
        return self._start()


class RowInputs:
    """Rows of numbers as the network's inputs; there is one view of them."""

    def __init__(self, values: NDArray[np.float32]) -> None:
        self._values = torch.from_numpy(values)

    def __len__(self) -> int:
        return len(self._values)

    def batches(self, requests: Iterable[tuple[Positions, Positions]]) -> Iterator[Tensor]:
        """Rows by their positions."""
        for positions, _ in requests:
            yield self._values[torch.from_numpy(positions)]


def open_inputs(
    model: TwoPartModel[Any], paths: Sequence[Path], *, views: Sequence[View] = (PLAIN,), keep: bool = True
) -> Inputs:
    """What the learning part is fed for image files: kept activations where layers are frozen, else decoded images.

    Args:
        keep: whether activations may be kept in the cache; for images that are seen only once, they should not be.
    """
    preprocess = Preprocess.of(model.config)
    if keep and model.config.keep_activations and len(model.prefix):
        from factlearn.assets import cache_dir

        folder = cache_dir() / "activations"
        stores = [ActivationStore(folder, part, Preprocess.of(part.config)) for part in model.frozen_parts()]
        return StoredInputs(stores, paths, views, _BATCH)
    return DecodedInputs(model, preprocess, paths, views)


def shuffled(inputs: Inputs, views: int, seed: int, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Every image once, in random order, each under a random view: batches, and the images' places in the list.

    Of several processes that learn together, each gets its rows of the same batches.
    """
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(inputs))
    drawn = generator.integers(views, size=len(order))
    cuts = range(batch_size, len(order), batch_size)
    requests = [_own_rows(*batch) for batch in zip(np.split(order, cuts), np.split(drawn, cuts), strict=True)]
    for (positions, _), batch in zip(requests, inputs.batches(requests), strict=True):
        yield batch, torch.from_numpy(positions)


def _own_rows(positions: Positions, views: Positions) -> tuple[Positions, Positions]:
    rows = processes.rows_of(len(positions))
    return positions[rows], views[rows]
