"""Adding and removing images: one writer per index, and one commit for all additions that have come together.

A picture is written below the uploads folder and synced before the commit that names it, so that an addition that was
acknowledged survives a kill at any moment, and one that was not leaves at most an unnamed file. Once no image names a
picture any more, because it was removed or replaced, its file is deleted.
"""

import asyncio
import hashlib
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactlearnError, IndexBusyError
from factlearn.facts import Fact
from factlearn.files import atomic_write
from factlearn.retrieval import FactIndex, Version
from factlearn.server.catalog import Served
from factlearn.server.lanes import Lane
from factlearn.server.metrics import Metrics
from factlearn.server.problems import ServiceError, busy
from factlearn.server.settings import Settings
from factlearn.server.snapshots import Snapshot
from factlearn.server.uploads import Picture

_MOST_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class Addition:
    """An image on its way into an index."""

    id: str
    path: Path
    vector: NDArray[np.float32]
    version: Version
    facts: Sequence[Fact]
    metadata: dict[str, str]
    file: dict[str, str]
    committed: "asyncio.Future[bool]"


class Writers:
    """Changes indexes; the lane has one thread, so that commits never wait for each other's locks."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.lane = Lane("write", 1, settings.limits.waiting_writes)
        self._uploads = settings.uploads
        self._longest = settings.limits.waiting_writes
        self._waiting: dict[str, list[Addition]] = {}
        self._coming: list[Path] = []  # kept, but not yet named by a commit; one for each addition

    def folder(self, served: Served) -> Path:
        """Where the pictures that are added to an index are kept."""
        if self._uploads is not None:
            return self._uploads / served.name
        place = Path(served.address)
        return place.with_name(f"{place.name}.uploads") if place.is_dir() else Path("uploads") / served.name

    async def keep(self, served: Served, picture: Picture) -> tuple[Path, dict[str, str]]:
        """Store a picture under the hash of its content; its path, size, time and hash."""
        return await self.lane.run(self._keep, self.folder(served).absolute(), picture)

    def _keep(self, folder: Path, picture: Picture) -> tuple[Path, dict[str, str]]:
        path, file = _keep(folder, picture)
        self._coming.append(path)  # in the lane's thread: no removal comes between
        return path, file

    async def add(
        self,
        served: Served,
        image: str,
        path: Path,
        file: dict[str, str],
        embedded: tuple[NDArray[np.float32], Version],
        facts: Sequence[Fact],
        metadata: dict[str, str],
    ) -> bool:
        """Add an image and return when it is committed; whether one with its id was replaced.

        Raises:
            ServiceError: if too many wait, or the index refuses.
        """
        waiting = self._waiting.setdefault(served.name, [])
        if len(waiting) >= self._longest:
            self._coming.remove(path)
            raise busy("Too many additions are waiting", 2)
        committed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        addition = Addition(image, path, *embedded, facts, metadata, file, committed)
        waiting.append(addition)
        try:
            async with served.writing:  # whoever is first commits for all who wait
                if not committed.done():
                    await asyncio.shield(asyncio.create_task(self._commit(served)))
            return await committed
        finally:
            if addition in self._waiting[served.name]:  # the client has left
                self._waiting[served.name].remove(addition)
                self._coming.remove(path)

    async def _commit(self, served: Served) -> None:
        waiting = self._waiting[served.name]
        if not waiting:
            return
        version = waiting[0].version
        taken = [each for each in waiting if each.version == version][:_MOST_AT_ONCE]
        self._waiting[served.name] = [each for each in waiting if each not in taken]
        for each in taken:
            self._coming.remove(each.path)
        try:
            replaced = await self.lane.run(_add, served, served.current(), taken, self._discarding(served))
        except FactlearnError as error:
            self._fail(taken, _refused(served, error))
        except Exception as error:
            self._fail(taken, error)
        else:
            for each in taken:
                if not each.committed.done():
                    each.committed.set_result(each.id in replaced)

    def _discarding(self, served: Served) -> "_Discarding":
        return _Discarding(self.folder(served).absolute(), self._coming)

    def _fail(self, taken: Sequence[Addition], error: Exception) -> None:
        for each in taken:
            if not each.committed.done():
                each.committed.set_exception(error)

    async def remove(self, served: Served, image: str) -> int:
        """Remove an image; how many there were."""
        async with served.writing:
            try:
                return await self.lane.run(_remove, served, served.current(), image, self._discarding(served))
            except FactlearnError as error:
                raise _refused(served, error) from None


def _refused(served: Served, error: FactlearnError) -> ServiceError:
    """Why an index does not take a change; while another process writes it, trying again helps."""
    if isinstance(error, IndexBusyError):
        return busy(f"The index {served.name} is being written by another process", 5)
    return ServiceError(409, served.said(str(error)))


@dataclass(frozen=True)
class _Discarding:
    """Deletes uploaded files that are no longer needed."""

    folder: Path
    coming: Sequence[Path]

    def __call__(self, index: FactIndex, paths: set[Path]) -> None:
        """Delete those of the files that are uploads and that no image, nor one on its way, names."""
        uploaded = {path for path in paths if path.parent == self.folder}
        if uploaded:
            for path in uploaded - {Path(item["path"]) for item in index.items()} - set(self.coming):
                with suppress(OSError):  # what was asked for is committed; a file too many harms nobody
                    path.unlink()


def _keep(folder: Path, picture: Picture) -> tuple[Path, dict[str, str]]:
    with open(picture.path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        path = folder / f"{digest[:32]}{picture.suffix}"
        if not path.exists():
            stream.seek(0)
            with atomic_write(path, "wb") as out:
                shutil.copyfileobj(stream, out)
    status = path.stat()
    return path, {"bytes": str(status.st_size), "modified": str(status.st_mtime_ns), "sha256": digest}


def _writer(snapshot: Snapshot) -> FactIndex:
    """An index object of its own: requests go on reading the snapshot's."""
    return FactIndex(snapshot.index.store.reload(), None)


def _add(served: Served, snapshot: Snapshot, taken: Sequence[Addition], discard: _Discarding) -> set[str]:
    """Commit additions in one step and take the new state into use; the ids that were there before."""
    index = _writer(snapshot)
    last = list({each.id: each for each in taken}.values())
    before = {each.id: item for each in last if (item := Snapshot(index).item(each.id)) is not None}
    index.add(
        np.stack([each.vector for each in last]),
        [each.id for each in last],
        paths=[each.path for each in last],
        model=last[0].version,
        known_facts=[Fact.parse(text) for text in (served.run or {}).get("facts", ())],
        facts=[each.facts for each in last],
        metadata=[each.metadata for each in last],
        files=[each.file for each in last],
    )
    served.swap(snapshot.successor(index.store))
    used = {Path(item["path"]) for item in before.values()} | {each.path for each in taken}
    discard(index, used - {each.path for each in last})
    return set(before)


def _remove(served: Served, snapshot: Snapshot, image: str, discard: _Discarding) -> int:
    index = _writer(snapshot)
    item = Snapshot(index).item(image)
    count = index.remove([image])
    served.swap(snapshot.successor(index.store))
    if item is not None:
        discard(index, {Path(item["path"])})
    return count
