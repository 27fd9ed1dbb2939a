"""What the learning part of the network is fed: kept activations, or images decoded as they are needed.

Both forms give the same batches for the same positions and views; only the time they take differs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from factlearn.models.activations import ActivationStore
from factlearn.models.inference import ahead
from factlearn.models.parts import TwoPartModel
from factlearn.models.preprocess import PLAIN, Preprocess, View, normalise

Positions = NDArray[np.int64]
Item = TypeVar("Item")


class Inputs(Protocol):
    """Inputs of the learning part, for a fixed list of images."""

    def batches(self, requests: Iterable[tuple[Positions, Positions]]) -> Iterator[Tensor]:
        """A batch for each request of positions in the list and the number of the view each is seen under."""

    def __len__(self) -> int: ...


class StoredInputs:
    """Activations of the frozen prefix from an `ActivationStore`, for every view."""

    def __init__(self, store: ActivationStore, paths: Sequence[Path], views: Sequence[View], batch_size: int) -> None:
        self._rows = [store.rows(paths, view, batch_size) for view in views]

    def __len__(self) -> int:
        return len(self._rows[0])

    def batches(self, requests: Iterable[tuple[Positions, Positions]]) -> Iterator[Tensor]:
        """Gather kept rows."""
        for positions, views in requests:
            batch: Tensor | None = None
            for number, rows in enumerate(self._rows):
                chosen = np.flatnonzero(views == number)
                if not len(chosen):
                    continue
                part = rows[positions[chosen]]
                if batch is None:
                    batch = part.new_empty((len(positions), *part.shape[1:]))
                batch[torch.from_numpy(chosen)] = part
            assert batch is not None
            yield batch


class DecodedInputs:
    """Images decoded ahead of need, sent through the frozen prefix if there is one."""

    def __init__(
        self, model: TwoPartModel, preprocess: Preprocess, paths: Sequence[Path], views: Sequence[View]
    ) -> None:
        self._model = model
        self._preprocess = preprocess
        self._paths = paths
        self._views = views

    def __len__(self) -> int:
        return len(self._paths)

    def batches(self, requests: Iterable[tuple[Positions, Positions]]) -> Iterator[Tensor]:
        """Decode, normalise and run the prefix."""
        device = next(self._model.suffix.parameters()).device
        for pixels in ahead(self._pixels, requests):
            with torch.no_grad():
                batch = self._model.prefix(normalise(pixels.to(device)))
            yield batch  # outside: a generator's no_grad would reach its reader

    def _pixels(self, request: tuple[Positions, Positions]) -> Tensor:
        pairs = zip(*request, strict=True)
        return torch.from_numpy(np.stack([self._preprocess.pixels(self._paths[p], self._views[v]) for p, v in pairs]))


def in_order(inputs: Inputs, batch_size: int) -> Iterator[Tensor]:
    """Every image once, in its order, under the plain view."""
    starts = range(0, len(inputs), batch_size)
    positions = (np.arange(start, min(start + batch_size, len(inputs))) for start in starts)
    return inputs.batches((chunk, np.zeros_like(chunk)) for chunk in positions)


class Reiterable(Iterable[Item]):
    """An iterable that starts anew each time, from a function that gives an iterator."""

    def __init__(self, start: Callable[[], Iterator[Item]]) -> None:
        self._start = start

    def __iter__(self) -> Iterator[Item]:
        return self._start()


def open_inputs(
    model: TwoPartModel,
    preprocess: Preprocess,
    paths: Sequence[Path],
    *,
    views: Sequence[View] = (PLAIN,),
    store: Path | None,
    batch_size: int = 64,
) -> Inputs:
    """Kept activations where a prefix is frozen and `store` names a folder for them, decoded images otherwise."""
    if store is not None and len(model.prefix):
        return StoredInputs(ActivationStore(store, model, preprocess), paths, views, batch_size)
    return DecodedInputs(model, preprocess, paths, views)
