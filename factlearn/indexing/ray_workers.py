"""Ray actors that embed images, on a cluster or on this machine (`--ray [ADDRESS]`).

Every node needs factlearn, the run directory and the images under the same paths. There is one actor for each GPU of
the cluster or, without any, for each CPU. An actor that is lost, with its process or its node, is dropped; its chunks
go to the others, and a new one joins when the cluster has room for it.
"""

import logging
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from factlearn.errors import FactIndexError
from factlearn.indexing.workers import Embedded, Model, Work, WorkerLost

LOCAL = "local"
_SECONDS_TO_START = 300.0
_SECONDS_TO_ANSWER = 10.0


class RayWorkers:
    """Actors on a Ray cluster.

    Args:
        address: of the cluster, such as `auto` or `ray://host:10001`; `local` starts Ray on this machine.
        work: how they embed.
        count: how many there are at most; as many as the cluster has devices if not given.
    """

    def __init__(self, address: str, work: Work, count: int | None = None) -> None:
        self._ray = ray = _connected(address, count)
        found = ray.cluster_resources()
        device = "num_gpus" if found.get("GPU") else "num_cpus"
        self._wanted = count or max(1, int(found.get("GPU") or found.get("CPU", 1)))
        self._actor = ray.remote(Model).options(**{device: 1, "max_restarts": 0})
        self._work = work
        self._live: dict[Any, int] = {}
        self._starting: dict[Any, Any] = {}
        for _ in range(self._wanted):
            self._start()

    @property
    def count(self) -> int:
        """How many actors there are, or will be."""
        return max(1, len(self._live) + len(self._starting))

    def _start(self) -> None:
        actor = self._actor.remote(self._work)
        self._starting[actor.embed.remote([])] = actor

    def _admit(self) -> None:
        """Take in the actors that are ready; wait for one if there is none.

        Raises:
            FactIndexError: if none starts in time, or one cannot load the model.
        """
        if not self._starting:
            return
        seconds = 0 if self._live else _SECONDS_TO_START
        ready, _ = self._ray.wait(list(self._starting), num_returns=1, timeout=seconds)
        while ready:
            actor = self._starting.pop(ready[0])
            try:
                self._ray.get(ready[0])
                self._live[actor] = 0
            except self._ray.exceptions.RayTaskError as error:
                raise FactIndexError(
                    f"A Ray worker cannot load the model ({_last_line(error)}); every node needs factlearn and "
                    f"{self._work.folder} under the same path."
                ) from error
            except self._ray.exceptions.RayError:  # lost while it started
                self._start()
            ready = self._starting and self._ray.wait(list(self._starting), num_returns=1, timeout=0)[0]
        if not self._live:
            raise FactIndexError("No Ray worker could be started in time; look at `ray status` for free resources.")

    def submit(self, paths: Sequence[Path]) -> tuple[Any, Any]:
        """Begin with a chunk, on the actor that has the fewest."""
        self._admit()
        actor = min(self._live, key=self._live.__getitem__)
        self._live[actor] += 1
        return actor, actor.embed.remote(list(paths))

    def result(self, begun: tuple[Any, Any]) -> Embedded:
        """Wait for a chunk."""
        actor, reference = begun
        try:
            found: Embedded = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise FactIndexError(f"A Ray worker failed: {_last_line(error)}.") from error
        except self._ray.exceptions.RayError as error:
            if self._live.pop(actor, None) is not None:
                self._start()
            raise WorkerLost from error
        if actor in self._live:
            self._live[actor] -= 1
        return found

    def close(self) -> None:
        """End the actors; a Ray that was started for them ends too."""
        for actor in (*self._live, *self._starting.values()):
            self._ray.kill(actor)
        self._ray.shutdown()


def _connected(address: str, count: int | None) -> Any:
    """Ray, connected to a cluster or started here."""
    try:
        import ray
    except ImportError:
        raise FactIndexError("Ray is not installed; install factlearn[ray].") from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unless the user asks for it
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address == LOCAL:
            ray.init(num_cpus=count, include_dashboard=False, **quiet)
        else:
            _check_answers(address)
            ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        raise FactIndexError(f"There is no Ray cluster at {address!r} ({_last_line(error)}).") from error
    return ray


def _check_answers(address: str) -> None:
    """Raise if nobody answers at a host and port, which Ray itself would wait for for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_SECONDS_TO_ANSWER).close()


def _last_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[-1].rstrip(".")
