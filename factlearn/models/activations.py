"""Activations of a frozen prefix, computed once and kept on disk.

Layout of a store, `activations/<key>/` in the cache directory, the key naming the prefix's weights, the input size, the
fit and the view:

    <segment>.npy    activations, float32 [rows, channels, height, width], opened memory-mapped
    <segment>.json   the SHA-256 of the image behind each row

A segment holds the images that one call found missing. Both files are written atomically, the JSON last: a segment
without its JSON, or one that was cut since, is ignored. Segments never change, so readers need no lock.
"""

import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from factlearn import places, processes
from factlearn.errors import RunError
from factlearn.files import atomic_write, fingerprint, write_json
from factlearn.models.decoding import image_batches
from factlearn.models.network import FrozenPart, TwoPartModel
from factlearn.models.preprocess import PLAIN, Preprocess, View
from factlearn.progress import progress


class StoredRows:
    """Rows gathered from memory-mapped segments; indexing with a list of positions gives a tensor batch."""

    def __init__(self, segments: list[NDArray[np.float32]], places: NDArray[np.int64]) -> None:
        self._segments = segments
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, positions: Sequence[int] | NDArray[np.int64]) -> Tensor:
        places = self._places[np.asarray(positions, dtype=np.int64)]
        for segment in np.unique(places[:, 0]):
            _check_whole(self._segments[segment])
        batch = np.empty((len(places), *self._segments[0].shape[1:]), np.float32)
        for row, (segment, place) in enumerate(places):
            batch[row] = self._segments[segment][place]
        return torch.from_numpy(batch)


class ActivationStore:
    """The kept activations of one model's frozen prefix, or of one backbone of several.

    Attributes:
        folder: where stores live, usually `activations` in the cache directory.
    """

    def __init__(self, folder: Path, model: TwoPartModel[Any] | FrozenPart, preprocess: Preprocess) -> None:
        self.folder = folder
        self._model = model
        self._preprocess = preprocess
        self._prefix = model.prefix_fingerprint()
        self._keys: dict[Path, str] = {}

    def rows(self, paths: Sequence[Path], view: View = PLAIN, batch_size: int = 64) -> StoredRows:
        """The activations of the images under the view, computing and keeping what is missing.

        The processes of a machine share what is missing; each keeps a segment.
        """
        keys = [self._image_key(path) for path in paths]
        store = self.folder / fingerprint(self._prefix, self._preprocess.name, view.name)
        segments, index = self._read(store)
        missing = {key: path for key, path in zip(keys, paths, strict=True) if key not in index}
        if processes.count() > 1:
            processes.wait()  # all have seen what is missing before one of them adds to it
            self._compute(store, _share(missing, batch_size), view, batch_size)
            processes.wait()
            segments, index = self._read(store)
            missing = {key: path for key, path in missing.items() if key not in index}
        if missing:
            self._compute(store, missing, view, batch_size)
            segments, index = self._read(store)
        return StoredRows(segments, np.array([index[key] for key in keys], np.int64).reshape(-1, 2))

    def _image_key(self, path: Path) -> str:
        if path not in self._keys:
            self._keys[path] = places.content_key(path)
        return self._keys[path]

    def _read(self, store: Path) -> tuple[list[NDArray[np.float32]], dict[str, tuple[int, int]]]:
        """The segments that are whole, and which of their rows belongs to which image."""
        segments: list[NDArray[np.float32]] = []
        index: dict[str, tuple[int, int]] = {}
        for path in sorted(store.glob("*.json")):
            try:
                keys = json.loads(path.read_text())
                rows = np.load(path.with_suffix(".npy"), mmap_mode="r", allow_pickle=False)
            except (FileNotFoundError, ValueError, EOFError):  # computed again
                continue
            index |= {key: (len(segments), row) for row, key in enumerate(keys)}
            segments.append(rows)
        return segments, index

    def _compute(self, store: Path, missing: dict[str, Path], view: View, batch_size: int) -> None:
        if not missing:
            return
        name = secrets.token_hex(8)
        device = self._model.device
        try:
            with (
                atomic_write(store / f"{name}.npy", "wb") as stream,
                torch.inference_mode(),
                progress("activations of the frozen layers", len(missing)) as advance,
            ):
                written = 0
                for batch in image_batches(list(missing.values()), self._preprocess, batch_size, view=view):
                    activations = self._model.frozen(batch.images.to(device)).float().cpu().numpy()
                    if not written:
                        _write_header(stream, (len(missing), *activations.shape[1:]))
                    stream.write(np.ascontiguousarray(activations).tobytes())
                    written += len(activations)
                    advance(len(activations))
            write_json(store / f"{name}.json", list(missing))
        except OSError as error:
            reason = error.strerror or error
            raise RunError(
                f"The activations could not be kept in {store} ({reason}); free some space, or set FACTLEARN_CACHE to "
                "another folder or model.keep_activations to false."
            ) from error


def _share(missing: dict[str, Path], batch_size: int) -> dict[str, Path]:
    """This process's part of the images: whole batches, so that they are computed as in one process."""
    return {key: path for place, (key, path) in enumerate(missing.items()) if processes.takes_here(place // batch_size)}


def _check_whole(mapped: Any) -> None:
    """Refuse a mapped file that was cut since it was opened: reading beyond its end would kill the process."""
    try:
        size = os.path.getsize(mapped.filename)
    except FileNotFoundError:  # deleted, and yet whole for those who have it open
        return
    if size < mapped.offset + mapped.nbytes:
        raise RunError(f"{mapped.filename} was truncated while it was open; delete it, and it will be recomputed.")


def _write_header(stream: object, shape: tuple[int, ...]) -> None:
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(stream, header)  # type: ignore[arg-type]
