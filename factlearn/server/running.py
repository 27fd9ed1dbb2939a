"""Running the service: uvicorn with our limits, until it is told to stop; then requests under way are finished."""

import ipaddress
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

import uvicorn

from factlearn.errors import ConfigError
from factlearn.learning.runs import Run
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
        FactlearnError: if the settings make no sense, or the address cannot be listened on.
    """

    def ready(server: Server) -> None:
        host, port = server.address
        place = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        indexes = server.app.state.service.catalog.indexes
        say(f"Serving {', '.join(indexes)} at {place}{f'#token={settings.tokens[0]}' if show_token else ''}")
        for served in indexes.values():
            if served.reason is not None:
                say(f"{served.name} cannot be searched: {served.reason}")

    _check(settings)
    try:
        with _offline(), _listening(settings.host, settings.port) as sockets:
            Server(settings, ready).run(sockets)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # finished already; a further Ctrl-C changes nothing


def _check(settings: Settings) -> None:
    """Refuse what would otherwise show in the middle of serving, or never."""
    check_places(settings.indexes)
    if settings.run is not None:
        Run.of_facts(settings.run)
    if settings.uploads is not None and settings.uploads.exists() and not settings.uploads.is_dir():
        raise ConfigError(f"--uploads {settings.uploads} is not a folder.")
    proxies = [] if settings.proxy is None else settings.proxy.split(",")
    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy.strip(), strict=False)
        except ValueError:
            raise ConfigError(f"--proxy takes IP addresses or networks, such as 127.0.0.1, not {proxy!r}.") from None


@contextmanager
def _listening(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Sockets at an address; opened before the indexes, so that a wrong address is told at once."""
    with ExitStack() as opened:
        try:
            if not host.strip():
                raise OSError("no host is named")  # would mean all addresses
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            sockets = [
                opened.enter_context(socket.create_server(place, family=family, backlog=_BACKLOG))
                for family, *_, place in dict.fromkeys(found)
            ]
            for each in sockets:  # connections inherit it: a body must not wait until its head is acknowledged
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, UnicodeError) as error:
            reason = str(getattr(error, "strerror", None) or error).partition(" (")[0]
            raise ConfigError(f"Cannot listen on {host}:{port} ({reason}); choose another --host or --port.") from None
        yield sockets


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
