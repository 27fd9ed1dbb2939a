"""Graceful shutdown at SIGTERM, as batch systems and orchestrators expect: write a checkpoint, then exit.

Between batches of the training loop, the first signal lets the batch end and a checkpoint be written. Elsewhere there
is nothing to keep that is not on disk already, and the process leaves at once. So it does at the second signal.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from factlearn import processes
from factlearn.errors import StoppedError
from factlearn.learning.runs import Checkpoint

_SENTENCE = "Stopped by SIGTERM; what was learned is kept: continue with --resume."


class Stopping:
    """Whether the process has been asked to stop.

    Attributes:
        asked: by a signal that came during the training loop.
    """

    def __init__(self) -> None:
        self.asked = False
        self._looping = False

    @contextmanager
    def looping(self) -> Iterator[None]:
        """Within the block, a signal only sets `asked`."""
        self._looping = True
        try:
            yield
        finally:
            self._looping = False

    def agreed(self) -> bool:
        """Whether any of the processes that learn together was asked to end, so that all of them leave together."""
        if processes.count() == 1:
            return self.asked
        return bool(processes.largest(torch.tensor([float(self.asked)])))

    def leave(self) -> None:
        """End the work.

        Raises:
            StoppedError: always.
        """
        raise StoppedError(_SENTENCE)

    def _handle(self, number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends the process whatever it does
        if not self._looping:
            self.leave()
        self.asked = True


@contextmanager
def stopping() -> Iterator[Stopping]:
    """Listen to SIGTERM within the block; only the main thread can."""
    stop = Stopping()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGTERM, stop._handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)


def middle_of_epoch(losses: list[Tensor], device: torch.device) -> dict[str, Tensor]:
    """What an interrupted epoch needs to go on: its losses so far, and where the random numbers stand."""
    state = {"losses": torch.stack(losses).cpu(), "random": torch.get_rng_state()}
    if device.type == "cuda":
        state["random.cuda"] = torch.cuda.get_rng_state(device)
    return state


def go_on(checkpoint: Checkpoint | None, batches: Iterator[Any], device: torch.device) -> list[Tensor]:
    """Pass over the batches that an interrupted epoch has learned from; returns their losses."""
    if checkpoint is None or not checkpoint.middle:
        return []
    losses = list(checkpoint.middle["losses"].to(device))
    for _ in losses:
        next(batches)
    torch.set_rng_state(checkpoint.middle["random"])
    if "random.cuda" in checkpoint.middle:
        torch.cuda.set_rng_state(checkpoint.middle["random.cuda"], device)
    return losses
