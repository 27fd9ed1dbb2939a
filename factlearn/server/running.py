"""Running the service: uvicorn with our limits, until it is told to stop; then requests under way are finished."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn

from factlearn.errors import ConfigError
from factlearn.server.app import create_app
from factlearn.server.catalog import check_places
from factlearn.server.protocol import patient_protocol
from factlearn.server.settings import Settings

_BACKLOG = 512
_SHUTDOWN_SECONDS = 30


class Server(uvicorn.Server):
    """Tells streams of events to end as soon as the service is told to stop."""

    def __init__(self, settings: Settings, ready: Callable[["Server"], None] | None = None) -> None:
        self.app = create_app(settings)
        self._ready = ready
        super().__init__(
            uvicorn.Config(
                self.app,
                host=settings.host,
                port=settings.port,
                http=patient_protocol(settings.limits),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=settings.proxy is not None,
                forwarded_allow_ips=settings.proxy,
                limit_concurrency=settings.limits.connections,
                timeout_keep_alive=15,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
                backlog=_BACKLOG,
                h11_max_incomplete_event_size=32_768,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the indexes, listen, and say so."""
        await super().startup(sockets)
        if self.started and self._ready is not None:
            self._ready(self)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop accepting; a second Ctrl-C does not wait for requests under way."""
        self.app.state.service.stopping.set()
        super().handle_exit(sig, frame)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens, once it does."""
        first: Any = self.servers[0].sockets[0]
        name = first.getsockname()
        return str(name[0]), int(name[1])


def run(settings: Settings, say: Callable[[str], None], *, show_token: bool) -> None:
    """Serve until SIGINT or SIGTERM; say where, with the token if it should be shown.

    Raises:
        ConfigError: if the address cannot be listened on.
    """

    def ready(server: Server) -> None:
        host, port = server.address
        place = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        names = ", ".join(server.app.state.service.catalog.indexes)
        say(f"Serving {names} at {place}{f'#token={settings.tokens[0]}' if show_token else ''}")

    check_places(settings.indexes)
    try:
        with _offline():
            Server(settings, ready).run()
    except SystemExit:
        raise ConfigError(
            f"Cannot listen on {settings.host}:{settings.port}; another program may be using it: choose another --port."
        ) from None
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # finished already; a further Ctrl-C changes nothing


@contextmanager
def _offline() -> Iterator[None]:
    """No query may start a download, of word vectors for example; afterwards, the process may as before."""
    before = os.environ.get("FACTLEARN_OFFLINE")
    os.environ["FACTLEARN_OFFLINE"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["FACTLEARN_OFFLINE"]
        else:
            os.environ["FACTLEARN_OFFLINE"] = before
