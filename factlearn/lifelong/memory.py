"""How many bytes a strategy holds, measured from its real tensors."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Memory:
    """Memory overhead of a strategy, excluding the network.

    Attributes:
        training_bytes: all tensors it holds now; meant to be read in the middle of a task.
        stored_bytes: what a checkpoint would keep now; meant to be read between tasks.
    """

    training_bytes: int
    stored_bytes: int


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """The bytes behind tensors; shared storage counts once."""
    storages = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        storages[(tensor.device, storage.data_ptr())] = storage.nbytes()
    return sum(storages.values())


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor reachable from an object through attributes, modules and containers.

    Attributes are followed in objects of this package and of the object's own, such as one that adds a method.
    """
    yield from _tensors_in(value, set(), {"factlearn", _package(value)})


def _package(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _tensors_in(value: Any, seen: set[int], packages: set[str]) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, nn.Module):
        yield from (*value.parameters(), *value.buffers())
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors_in(each, seen, packages)
    elif _package(value) in packages and hasattr(value, "__dict__"):
        yield from _tensors_in(vars(value), seen, packages)
