"""Processes that learn together: which part of the work is this one's, and sums over all of them.

A process starts alone: its part is the whole, every sum is complete, and nothing here does anything. Within `joined` it
is one of several that run the same program on the same data:

    a batch that is learned from   every process takes its rows; gradients are added up (`begin_batch`, `add_gradients`)
    batches that are summed over   every process takes some of them; the sums are added up (`takes`, `total`)
    rows that are computed once    every process takes some batches; all get all rows (`takes`, `whole`)

Batches have the images that they have in one process, so that only the order of sums differs from it. Not even that
does within `each_alone`, where every process does the whole work and nothing is added up. The first process alone
writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from factlearn.errors import ProcessLost

if TYPE_CHECKING:
    from torch import Tensor, nn

_MOST_AXES = 8


@dataclass(frozen=True)
class Elsewhere:
    """Stands for a batch of so many samples that another process takes."""

    samples: int


@dataclass
class Group:
    """The processes and this one's place among them.

    Attributes:
        rank: number of this process, from 0.
        count: how many there are.
        local_rank, local_count: the same on this machine.
        engine: what the training loop runs on, if the processes were started for one.
        rows: of the batch that is being learned from.
        each_alone: whether every process does the whole work at present.
    """

    rank: int = 0
    count: int = 1
    local_rank: int = 0
    local_count: int = 1
    engine: Any = None
    rows: int = field(default=0, init=False)
    each_alone: bool = field(default=False, init=False)

    @property
    def share(self) -> tuple[int, int]:
        """This process's place among those that share the work at present, and how many they are."""
        return (0, 1) if self.each_alone else (self.rank, self.count)


_group = Group()


@contextmanager
def joined(group: Group) -> Iterator[None]:
    """Be one of several processes within the block; torch's process group exists already."""
    global _group  # noqa: PLW0603
    before, _group = _group, group
    try:
        yield
    finally:
        _group = before


@contextmanager
def each_alone(really: bool = True) -> Iterator[None]:
    """Let every process do the whole work within the block, where sending sums takes longer than computing them."""
    before, _group.each_alone = _group.each_alone, really
    try:
        yield
    finally:
        _group.each_alone = before


def count() -> int:
    """How many processes learn together."""
    return _group.count


def first() -> bool:
    """Whether this is the process that writes and speaks."""
    return _group.rank == 0


def engine() -> Any:
    """What the training loop of these processes runs on; None if this one is alone."""
    return _group.engine


def rows_of(rows: int) -> slice:
    """This process's rows of a batch; all of them if there are too few for every process to have one."""
    rank, count = _group.share
    if rows < count:
        return slice(0, rows)
    return slice(rows * rank // count, rows * (rank + 1) // count)


def begin_batch(rows: int) -> float:
    """Learn from a batch of so many rows next; the weight of the mean over this process's rows in that over all."""
    _group.rows = rows
    return weight()


def weight() -> float:
    """What `begin_batch` returned."""
    _, count = _group.share
    if _group.rows < count:
        return 1 / count
    own = rows_of(_group.rows)
    return float((own.stop - own.start) / _group.rows)


def batch_rows() -> int:
    """The rows of the whole batch that is being learned from."""
    return _group.rows


def takes(place: int) -> bool:
    """Whether this process takes the batch of this number."""
    rank, count = _group.share
    return place % count == rank


def takes_here(place: int) -> bool:
    """Whether this process takes the batch of this number among those of this machine."""
    return place % _group.local_count == _group.local_rank


def shared(batches: Iterable[Any]) -> Iterable[Any]:
    """The batches that this process takes, and `Elsewhere` for the others."""
    if _group.share == (0, 1):
        return batches
    share = getattr(batches, "share", None)  # does not even read what others take
    return share() if share else _read_all(batches)


def _read_all(batches: Iterable[Any]) -> Iterator[Any]:
    for place, batch in enumerate(batches):
        yield batch if takes(place) else Elsewhere(len(batch[0] if isinstance(batch, list | tuple) else batch))


def own(batches: Iterable[Any]) -> Iterator[Any]:
    """Shared batches without those that other processes take."""
    return (batch for batch in batches if not isinstance(batch, Elsewhere))


def wait() -> None:
    """Go on when every process has come here."""
    if _group.count > 1:
        import torch

        _reduce(torch.zeros(1), "SUM")


def add_up(tensor: Tensor) -> None:
    """Add the other processes' tensors, of the same shape, in place.

    Raises:
        ProcessLost: if another process has ended.
    """
    if _group.share != (0, 1):
        _reduce(tensor, "SUM")


def total(tensor: Tensor) -> Tensor:
    """The sum over all processes; one that had nothing to add may give a zero without a shape."""
    if _group.share == (0, 1):
        return tensor
    import torch

    shape = torch.tensor([tensor.dim(), *tensor.shape] + [0] * (_MOST_AXES - tensor.dim()))
    _reduce(shape, "MAX")
    axes = shape[1 : 1 + int(shape[0])].tolist()
    result = tensor.new_zeros(axes) if list(tensor.shape) != axes else tensor.clone()
    add_up(result)
    return result


def largest(tensor: Tensor) -> Tensor:
    """The largest values over all processes, element by element."""
    if _group.count == 1:
        return tensor
    result = tensor.clone()
    _reduce(result, "MAX")
    return result


def whole(parts: Iterable[Tensor | Elsewhere], like: Tensor) -> Tensor:
    """The rows of all batches in their order, each batch computed by the process that takes it.

    Args:
        like: has the type and device of the rows, which a process that takes no batch cannot know.
    """
    import torch

    found = list(parts)
    if _group.share == (0, 1):
        return torch.cat(found)  # type: ignore[arg-type]
    known = next((part for part in found if not isinstance(part, Elsewhere)), None)
    if known is None:
        return total(like.new_zeros(()))
    filled = [known.new_zeros(p.samples, *known.shape[1:]) if isinstance(p, Elsewhere) else p for p in found]
    return total(torch.cat(filled))


def make_equal(tensors: Iterable[Tensor]) -> None:
    """Give every process the first one's values, in place."""
    if _group.count > 1:
        import torch.distributed

        with _peers():
            for tensor in tensors:
                torch.distributed.broadcast(tensor, src=0)


def add_gradients(parameters: Iterable[nn.Parameter], loss: Tensor) -> Tensor:
    """Add up the gradients of all processes; a parameter that no process has a gradient of stays without one.

    Returns:
        The sum of the losses, which goes the same way.
    """
    if _group.share == (0, 1):
        return loss
    import torch

    learning: Sequence[nn.Parameter] = [parameter for parameter in parameters if parameter.requires_grad]
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in learning]
    used = torch.tensor([float(p.grad is not None) for p in learning], device=parts[0].device)
    flat = torch.cat([*(part.flatten() for part in parts), used.to(parts[0].dtype), loss.view(1)])
    add_up(flat)
    *summed, used, losses = flat.split([*(p.numel() for p in learning), len(learning), 1])
    for parameter, gradient, users in zip(learning, summed, used.tolist(), strict=True):
        if users:
            parameter.grad = gradient.view_as(parameter)
    found: Tensor = losses[0].clone()
    return found


def _reduce(tensor: Tensor, operation: str) -> None:
    if _group.count > 1:
        import torch.distributed

        with _peers():
            torch.distributed.all_reduce(tensor, getattr(torch.distributed.ReduceOp, operation))


@contextmanager
def _peers() -> Iterator[None]:
    """Turn a broken connection into an error for the user."""
    try:
        yield
    except RuntimeError as error:
        raise ProcessLost(
            f"One of the {_group.count} processes has ended, so this one cannot continue; resume from the last "
            "checkpoint with --resume, on any number of processes."
        ) from error
