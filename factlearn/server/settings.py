"""What a service is started with, and its limits."""

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from factlearn.errors import ConfigError

_SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Limits:
    """Bounds that keep one client, or one picture, from taking the service down.

    Attributes:
        upload_bytes, upload_pixels: the largest picture that is accepted.
        body_bytes: the largest request body that is no upload.
        header_seconds: how long a client may take to send the head of a request.
        body_seconds: how long it may take to send a body.
        decode_seconds, embed_seconds: after which a worker is killed.
        answer_seconds: after which a request is given up with 503.
        waiting_queries, waiting_uploads, waiting_writes: how many may wait before others are told to come back.
        connections: how many may be open at once, and from one address.
        batch: how many queries are answered in one sweep.
    """

    upload_bytes: int = 20_000_000
    upload_pixels: int = 50_000_000
    body_bytes: int = 1_000_000
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    decode_seconds: float = 10.0
    embed_seconds: float = 60.0
    answer_seconds: float = 60.0
    waiting_queries: int = 512
    waiting_uploads: int = 32
    waiting_writes: int = 64
    connections: int = 1024
    connections_per_client: int = 256
    batch: int = 32
    thumbnail_bytes: int = 32_000_000
    jobs: int = 4


@dataclass(frozen=True)
class Settings:
    """What a service is started with.

    Attributes:
        indexes: folders or addresses; the last part of each is its name.
        run: the run whose model embeds; by default the one that made each index.
        host, port: where to listen.
        tokens: any of them allows writing.
        token_to_read: reading needs a token as well.
        hosts: names under which clients may reach the service, besides loopback and `host`.
        uploads: where added pictures are kept; by default beside each index.
        workers: number of processes that embed pictures.
        rate: requests per second that one client may make in the long run; 0 for any number.
        proxy: the address of a proxy in front, whose X-Forwarded-For and X-Forwarded-Proto are believed.
        refresh_seconds: how often to look for commits of other processes.
        verify_seconds: how often to compare all files of an index with their checksums; 0 for never.
    """

    indexes: tuple[str, ...]
    run: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8765
    tokens: tuple[str, ...] = field(default=(), repr=False)
    token_to_read: bool = False
    hosts: tuple[str, ...] = ()
    uploads: Path | None = None
    workers: int = 1
    rate: float = 100.0
    proxy: str | None = None
    refresh_seconds: float = 1.0
    verify_seconds: float = 600.0
    limits: Limits = Limits()

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the service; a proxy in front makes that unknown."""
        return is_loopback(self.host) and self.proxy is None


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_tokens(path: Path) -> tuple[str, ...]:
    """The tokens in a file, one per line; empty lines and `#` comments are ignored.

    Raises:
        ConfigError: if there is none, or one is easily guessed.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The token file {path} cannot be read ({error}); write a long random line into it."
        ) from None
    tokens = tuple(line for line in lines if line and not line.startswith("#"))
    if not tokens:
        raise ConfigError(f"The token file {path} holds no token; write a long random line into it.")
    if any(len(token) < _SHORTEST_TOKEN or not token.isascii() or " " in token for token in tokens):
        raise ConfigError(
            f"A token in {path} is shorter than {_SHORTEST_TOKEN} characters or not plain ASCII; make one with "
            "`openssl rand -hex 24`."
        )
    return tokens
