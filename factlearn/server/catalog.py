"""The served indexes by name: the snapshot in use, swapped when someone commits, taken out when damaged."""

import asyncio
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from factlearn.errors import ConfigError, FactIndexError, FactlearnError
from factlearn.retrieval import FactIndex, store_at
from factlearn.retrieval.stores import DEFAULT, STORES
from factlearn.server.batching import Batcher
from factlearn.server.lanes import Lane
from factlearn.server.metrics import Metrics
from factlearn.server.problems import ServiceError
from factlearn.server.settings import Settings
from factlearn.server.snapshots import Snapshot

_NAME = re.compile(r"[^/\\:=]+")
_AFTER_TASK = "-after-task-"
_JUDGED_FOR = 10.0
_CHECK_OTHERS = 10.0  # seconds between looks at stores that are no folders
_RETRY = 3.0
_SWEEPS = 1 if (os.cpu_count() or 1) < 4 else 2  # a sweep has two threads and more; others would only slow it down


class Served:
    """One index under its name.

    Attributes:
        snapshot: the state that new requests use; None while the index cannot be searched.
        reason: why it cannot.
        run: what the embedding worker says about the run behind it, once it has.
        described: the newest model when the worker was asked about the run, and when that was.
        stages: the indexes of the same images by the models after each task, this one included, by stage.
    """

    def __init__(self, name: str, address: str, batcher: Batcher, metrics: Metrics) -> None:
        self.name = name
        self.address = address
        self.batcher = batcher
        self.metrics = metrics
        self.snapshot: Snapshot | None = None
        self.reason: str | None = "It is still being opened."
        self.run: dict[str, Any] | None = None
        self.run_name: str | None = None
        self.described: tuple[str | None, float] = (None, 0.0)
        self.stages: dict[int, Served] = {}
        self.writing = asyncio.Lock()
        self._signature: object = None
        self._looked = self._verified = self._judged = 0.0

    # Opening and swapping; these block

    def open(self) -> None:
        """Open the newest state; if it cannot be, say why."""
        signature = self._sign()
        try:
            index = FactIndex.open(self.address)
            index.similar(np.zeros((3, index.dimension), np.float32), 1)  # so that no request waits for imports
            self.swap(Snapshot(index), signature)
        except FactlearnError as error:
            self.take_out(str(error))
        except OSError as error:
            self.take_out(f"It cannot be read ({error}).")

    def swap(self, snapshot: Snapshot, signature: object = None) -> None:
        """Have new requests use a snapshot; those under way keep theirs."""
        snapshot.index.vocabulary  # noqa: B018  (worked out now, so that no request waits for it)
        self._signature = signature if signature is not None else self._sign()
        self.snapshot, self.reason = snapshot, None
        self.metrics.swaps.labels(self.name).inc()
        self.metrics.images.labels(self.name).set(len(snapshot.index))
        self.metrics.ready.labels(self.name).set(1)

    def take_out(self, reason: str) -> None:
        """Have requests refused, with the reason."""
        self.snapshot, self.reason = None, self.said(reason)
        self.metrics.ready.labels(self.name).set(0)

    def said(self, sentence: str) -> str:
        """A sentence about the index for clients, who know it by its name, not by its place."""
        return sentence.replace(self.address, self.name)

    def _sign(self) -> object:
        """Changes with every commit; None for stores that are no folders."""
        try:
            status = os.stat(Path(self.address) / "index.json")
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def look(self, verify_seconds: float) -> None:
        """Take commits of others into use, notice damage, and try again what could not be opened."""
        now = time.monotonic()
        signature = self._sign()
        if self.snapshot is None:
            if signature != self._signature or now - self._looked > _RETRY:
                self._looked, self._signature = now, signature
                self._open_if_whole()
        elif verify_seconds and now - self._verified > verify_seconds:
            self._verified = now
            self._judged = 0.0
            self.is_damaged()
        elif signature is not None and signature != self._signature:
            self._reload(signature)
        elif signature is None and now - self._looked > _CHECK_OTHERS:
            self._looked = now
            self._reload(signature)

    def _open_if_whole(self) -> None:
        try:
            index = FactIndex.open(self.address, verify=True)
        except FactlearnError as error:
            self.take_out(str(error))
        else:
            self.swap(Snapshot(index))

    def _reload(self, signature: object) -> None:
        before = self.snapshot
        if before is None:
            return
        try:
            self.swap(before.successor(before.index.store.reload()), signature)
        except FactlearnError as error:
            self.take_out(str(error))

    def is_damaged(self) -> bool:
        """Whether the index is not as it was written; if so, it is taken out. Asked often, it answers from memory."""
        snapshot, now = self.snapshot, time.monotonic()
        if snapshot is None:
            return True
        if now - self._judged > _JUDGED_FOR:
            self._judged = now
            problems = snapshot.index.verify()
            if problems:
                self.take_out(problems[0])
        return self.snapshot is None

    def problems(self) -> list[str]:
        """One sentence for everything that is not as it was written, now; the index is taken out if there is any."""
        found = [str(problem) for problem in store_at(self.address).verify(self.address)]
        if found:
            self.take_out(found[0])
        return [self.said(problem) for problem in found]

    # Use

    def current(self) -> Snapshot:
        """The snapshot in use.

        Raises:
            ServiceError: if there is none, with the reason.
        """
        snapshot = self.snapshot
        if snapshot is None:
            raise ServiceError(503, f"The index {self.name} cannot be searched: {self.reason}", {"Retry-After": "5"})
        return snapshot

    @property
    def knows_run(self) -> bool:
        """Whether the newest vectors came from a run."""
        snapshot = self.snapshot
        return snapshot is not None and snapshot.index.models[snapshot.index.model].run is not None

    def at_stage(self, stage: int | None) -> "Served":
        """This index, or its sibling by the model after a stage.

        Raises:
            ServiceError: if there is none of that stage.
        """
        if stage is None:
            return self
        if stage in self.stages:
            return self.stages[stage]
        known = ", ".join(map(str, sorted(self.stages))) or "none"
        raise ServiceError(404, f"{self.name} is not served as it was after stage {stage}; its stages are: {known}.")


class Catalog:
    """All served indexes; the first one is the default."""

    def __init__(self, settings: Settings, sweep_lane: Lane, metrics: Metrics) -> None:
        self.settings = settings
        self._lane = sweep_lane
        self._metrics = metrics
        self.indexes: dict[str, Served] = {}
        for given in settings.indexes:
            name, address = _named(given)
            if name in self.indexes:
                shown = store_at(address).shown(address)
                raise ConfigError(f"Two indexes are called {name!r}; name one of them, as in other={shown}.")
            self.indexes[name] = self._served(name, address)

    def _served(self, name: str, address: str) -> Served:
        limits = self.settings.limits
        batcher = Batcher(self._lane, _SWEEPS, limits.batch, limits.waiting_queries, self._metrics)
        return Served(name, address, batcher, self._metrics)

    def open(self) -> None:
        """Open all indexes and find their siblings; those that cannot be opened say why."""
        for served in self.indexes.values():
            served.open()
        for served in self.indexes.values():
            self.find_stages(served)

    def find_stages(self, served: Served) -> None:
        """The siblings `NAME-after-task-N` of an index folder whose models descend from the same first task."""
        snapshot = served.snapshot
        if snapshot is None or served.stages:
            return
        if snapshot.stage is not None:
            served.stages[snapshot.stage] = served
        place = Path(served.address)
        if not place.is_dir():
            return
        for folder in sorted(place.parent.glob(f"{_escaped(place.name)}{_AFTER_TASK}*")):
            known = next((each for each in self.indexes.values() if Path(each.address) == folder), None)
            sibling = known or self._served(folder.name, str(folder))
            if known is None:
                sibling.open()
            older = sibling.snapshot
            if older is not None and older.stage is not None and _lineages(older.index) & _lineages(snapshot.index):
                served.stages.setdefault(older.stage, sibling)
        served.stages = dict(sorted(served.stages.items()))

    def find(self, name: str | None, stage: int | None = None) -> Served:
        """An index by name, as it was after a stage.

        Raises:
            ServiceError: if there is none.
        """
        if name is None:
            return next(iter(self.indexes.values())).at_stage(stage)
        if name not in self.indexes:
            siblings = (each for served in self.indexes.values() for each in served.stages.values())
            found = next((each for each in siblings if each.name == name), None)
            if found is None:
                raise ServiceError(404, f"There is no index {name!r} here; there are {', '.join(self.indexes)}.")
            return found
        return self.indexes[name].at_stage(stage)

    def everything(self) -> Iterator[Served]:
        """All indexes and their siblings, each once."""
        seen: set[int] = set()
        for served in self.indexes.values():
            for each in (served, *served.stages.values()):
                if id(each) not in seen:
                    seen.add(id(each))
                    yield each

    def look(self) -> None:
        """One look at every index; blocks."""
        for served in list(self.everything()):
            try:
                served.look(self.settings.verify_seconds)
            except OSError as error:
                served.take_out(f"It cannot be read ({error}).")
        for served in self.indexes.values():
            self.find_stages(served)


def check_places(given: Sequence[str]) -> None:
    """Refuse folders that are no index, before the service starts: a damaged index may be repaired, a typo may not.

    Raises:
        FactIndexError: naming the first.
    """
    for each in given:
        _, address = _named(each)
        if store_at(address) is not STORES[DEFAULT]:
            continue
        if not os.path.isdir(address):
            raise FactIndexError(f"{address} is not an index (no such folder); build one with `factlearn index build`.")
        if not any(os.path.exists(os.path.join(address, part)) for part in ("index.json", "segments")):
            raise FactIndexError(f"{address} is not an index (it has no index.json); name one, such as indexes/demo.")


def _named(given: str) -> tuple[str, str]:
    name, equals, address = given.partition("=")
    if equals and _NAME.fullmatch(name) and not os.path.isdir(given):
        return name, address
    parts = _NAME.findall(given.partition("?")[0])
    if not parts:
        raise FactIndexError(f"{given!r} names no index; give a folder such as indexes/demo.")
    return parts[-1], given


def _lineages(index: FactIndex) -> set[str]:
    return {entry.lineage for entry in index.models.values()}


def _escaped(name: str) -> str:
    import glob

    return glob.escape(name)
