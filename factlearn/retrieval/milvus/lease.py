"""One writer at a time, on a server that cannot compare and set: a lease in the collection of the record.

A writer adds a row of its own, `lease-…`, and only then reads, with strong consistency, whose rows there are. If it
sees another's, it takes its own away and tries again later. Two writers cannot both go ahead: if the first did not see
the second, the second's row was written after the first had read, so the second sees the first.

A lease is renewed while work goes on, and ends by itself TERM seconds after its last renewal; so a writer that was
killed keeps others out for two minutes at most, and not at all if it ran on the same machine, where it can be seen to
be gone. Clocks of machines that write to one index must agree to within a minute, as NTP makes them.
"""

import os
import socket
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import ValidationError

from factlearn.errors import FactIndexError
from factlearn.retrieval.about import Entry

if TYPE_CHECKING:
    from factlearn.retrieval.milvus.record import RecordStore

PREFIX = "lease-"
TERM = 120.0  # seconds
PATIENCE = 10.0  # seconds to wait for another writer
_RENEW = 30.0  # seconds; one attempt at a call must end within TERM - _RENEW
_RELEASE = 2.0  # seconds
_held: set[str] = set()  # by this process


class Holder(Entry):
    """Who holds a lease, and until when at most."""

    host: str
    pid: int
    world: str
    until: float

    def is_alive(self, name: str) -> bool:
        """Whether the holder may still be writing."""
        if self.until < time.time():
            return False
        if self.world != _world():
            return True
        return name in _held if self.pid == os.getpid() else Path(f"/proc/{self.pid}").exists()

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Lease:
    """The right to change an index, within a `with` block."""

    def __init__(self, records: "RecordStore") -> None:
        self._records = records
        self._name = PREFIX + uuid.uuid4().hex
        self._written = -TERM

    def __enter__(self) -> Self:
        until = time.monotonic() + min(PATIENCE, self._records.connection.address.timeout)
        pause = 0.1 + int(self._name[-4:], 16) / 2**17  # each writer its own, so that two do not meet again and again
        _held.add(self._name)
        try:
            while True:
                self._write()
                others = self._others()
                if not others:
                    return self
                self._records.forget([self._name])
                if time.monotonic() + pause > until:
                    raise self._busy(*others.values())
                time.sleep(pause)
                pause *= 1.5
        except BaseException:
            self._release()
            raise

    def __exit__(self, *_: object) -> None:
        self._release()

    def renew(self) -> None:
        """Keep the lease while work goes on; cheap unless it is time.

        Raises:
            FactIndexError: if another writer has come in, because this one stood still for too long.
        """
        if time.monotonic() - self._written > _RENEW:
            self.check()
            self._write()

    def check(self) -> None:
        """Make sure that no one else can have written since the lease was taken.

        Raises:
            FactIndexError: if that is possible.
        """
        late = time.monotonic() - self._written > TERM
        if late or self._name not in self._records.leases() or self._others():
            raise FactIndexError(
                f"{self._records.connection.address.place} may have been written by another process meanwhile, because "
                "this one or the server stalled; repeat the change."
            )

    def _write(self) -> None:
        holder = Holder(host=socket.gethostname(), pid=os.getpid(), world=_world(), until=time.time() + TERM)
        self._records.put({self._name: holder.model_dump_json()})
        self._written = time.monotonic()

    def _others(self) -> dict[str, Holder]:
        """Other writers; rows of those that are gone are deleted."""
        alive, gone = {}, []
        for name, text in self._records.leases().items():
            if name == self._name:
                continue
            try:
                holder = Holder.model_validate_json(text)
            except ValidationError:
                gone.append(name)
                continue
            if holder.is_alive(name):
                alive[name] = holder
            else:
                gone.append(name)
        self._records.forget(gone)
        return alive

    def _release(self) -> None:
        _held.discard(self._name)
        with suppress(FactIndexError):  # a server that is away will see it end by itself
            self._records.forget([self._name], within=_RELEASE)

    def _busy(self, holder: Holder, *_: Holder) -> FactIndexError:
        ends = time.strftime("%H:%M:%S", time.gmtime(holder.until))
        return FactIndexError(
            f"{self._records.connection.address.place} is being written by another process ({holder}); wait for it and "
            f"try again, or, if it died, after {ends} UTC."
        )


def _world() -> str:
    """What distinguishes machines and containers: where two processes see the same one, a process id means the same."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"unknown {uuid.uuid4().hex}"
