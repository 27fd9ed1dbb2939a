"""Tensors and records of a run on disk, each with a checksum, so that a flipped bit is an error and never a result.

A safetensors file carries the checksum of its tensors in its own metadata, a record (JSON) under the key `checksum`.
Files without one, written by earlier versions, are read as they are.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factlearn.errors import RunError
from factlearn.files import atomic_write, write_json

if TYPE_CHECKING:
    from torch import Tensor

PRUNABLE = ("model", "strategy")
"""The files of a stage that only serve to go back to it."""
_CHECKSUM = "checksum"


def save_tensors(tensors: Mapping[str, "Tensor"], path: Path) -> None:
    """Write tensors as safetensors, atomically."""
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with atomic_write(path, "wb") as stream:
        stream.write(save(plain, {_CHECKSUM: _checksum(plain)}))


def load_tensors(path: Path) -> dict[str, "Tensor"]:
    """Read tensors that `save_tensors` wrote.

    Raises:
        RunError: if the file is missing or not as it was written.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (no mapping)
            expected = (file.metadata() or {}).get(_CHECKSUM)
    except FileNotFoundError:
        if (path.parent / "stage.json").is_file() and path.stem in PRUNABLE:
            raise RunError(
                f"Stage {path.parent.name} of {path.parents[2]} was pruned: its results are kept, its {path.stem} "
                "is not; use a later stage."
            ) from None
        raise RunError(f"{path} is missing; the run is not complete, train it with --resume.") from None
    except (OSError, SafetensorError) as error:
        raise RunError(f"{path} is damaged ({error}); train the run again.") from error
    if expected not in (None, _checksum(found)):
        raise RunError(f"{path} is damaged (its checksum differs); restore it from a backup or train the run again.")
    return found


def _checksum(tensors: Mapping[str, "Tensor"]) -> str:
    import torch

    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def write_sealed(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record as JSON with its checksum, atomically."""
    write_json(path, {**record, _CHECKSUM: _checksum_of(record)})


def read_sealed(path: Path) -> dict[str, Any]:
    """Read a record, without its checksum.

    Raises:
        RunError: if the file is missing, no JSON object, or not as it was written.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except FileNotFoundError:
        raise RunError(f"{path} is missing; the run is not complete, train it with --resume.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged ({error}); train the run again.") from error
    if not isinstance(record, dict):
        raise RunError(f"{path} is damaged (not an object); train the run again.")
    expected = record.pop(_CHECKSUM, None)
    if expected is not None and expected != _checksum_of(record):
        raise RunError(f"{path} is damaged (its checksum differs); restore it from a backup or train the run again.")
    return record


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _checksum_of(record: Mapping[str, Any]) -> str:
    """Of the record as it comes back from JSON, where tuples are lists and keys are text."""
    return hashlib.sha256(json.dumps(json.loads(json.dumps(record)), ensure_ascii=True).encode()).hexdigest()
