"""HTTP connections that do not wait forever: a client must send the head of a request in time (slow loris)."""

import asyncio
from collections import Counter
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from factlearn.server.settings import Limits


def patient_protocol(limits: Limits) -> type[H11Protocol]:
    """uvicorn's protocol, with a time for each request's head and a number of connections per address."""
    clients: Counter[str] = Counter()

    class PatientProtocol(H11Protocol):
        """Closes connections whose request does not arrive in time."""

        _head: asyncio.TimerHandle | None = None
        _counted: str | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            address = self.client[0] if self.client else "unknown"
            if clients[address] >= limits.connections_per_client:
                transport.abort()
                return
            self._counted = address
            clients[address] += 1
            self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            if self._counted is not None:
                clients[self._counted] -= 1
                if not clients[self._counted]:
                    del clients[self._counted]
                self._counted = None
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._answers():
                self._stop_waiting()
            elif self._head is None:  # the head of a further request has begun
                self._expect_head()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self._answers():  # a pipelined request
                self._stop_waiting()

        def _answers(self) -> bool:
            cycle: Any = self.cycle
            return cycle is not None and not cycle.response_complete

        def _expect_head(self) -> None:
            self._head = self.loop.call_later(limits.header_seconds, self._give_up)

        def _give_up(self) -> None:
            self._head = None
            if not self._answers() and not self.transport.is_closing():
                self.transport.abort()

        def _stop_waiting(self) -> None:
            if self._head is not None:
                self._head.cancel()
                self._head = None

    return PatientProtocol
