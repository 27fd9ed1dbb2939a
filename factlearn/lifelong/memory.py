"""How many bytes a strategy holds, measured from its real tensors."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Memory:
    """Bytes a strategy needs beside the network itself.

    Attributes:
        training_bytes: all tensors it holds at the moment of asking; ask in the middle of a task.
        stored_bytes: what it would keep in a checkpoint at that moment; ask between tasks.
    """

    training_bytes: int
    stored_bytes: int


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """The bytes behind tensors; storage that several of them share counts once."""
    storages = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        storages[(tensor.device, storage.data_ptr())] = storage.nbytes()
    return sum(storages.values())


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor reachable from an object of this package: in attributes, modules and containers."""
    yield from _tensors_in(value, set())


def _tensors_in(value: Any, seen: set[int]) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, nn.Module):
        yield from (*value.parameters(), *value.buffers())
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _tensors_in(each, seen)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors_in(each, seen)
    elif type(value).__module__.startswith("factlearn."):
        yield from _tensors_in(vars(value), seen)
