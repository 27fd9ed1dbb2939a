"""Who may ask: tokens, host names, origins; and the headers that keep browsers strict."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from factlearn.server.problems import ServiceError
from factlearn.server.settings import Settings

COOKIE = "factlearn-reader"
READING = frozenset({"GET", "HEAD"})
READING_POSTS = frozenset({
    "/api/v1/search", "/api/v1/search/image", "/api/v1/search/vector", "/api/v1/facts", "/api/v1/download",
})  # fmt: skip
_OPEN = frozenset({"/healthz", "/readyz"})
_DOOR = "/api/v1"  # tells strangers only what is asked of them
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_ANY = frozenset({"0.0.0.0", "::"})
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "manifest-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


class Doorkeeper:
    """Decides whether a request may come in, from its head alone."""

    def __init__(self, settings: Settings) -> None:
        self._tokens = [token.encode() for token in settings.tokens]
        self._readers = [_cookie_of(token) for token in settings.tokens]
        self._token_to_read = settings.token_to_read
        named = {_bare(host) for host in (settings.host, *settings.hosts)} - _ANY
        self._hosts = _LOOPBACK | named

    def check(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> None:
        """Refuse a request for another host, from another site, or without the token it needs.

        Raises:
            ServiceError: saying which.
        """
        self._check_host(headers.get(b"host", b""))
        self._check_origin(headers)
        reads = method in READING or (method == "POST" and path in READING_POSTS)
        if path in _OPEN or not path.startswith(("/api/", "/metrics")):
            return
        if not reads:
            self._check_token(headers, "Changing anything")
        elif (
            self._token_to_read and not self._has_cookie(headers) and not (path == _DOOR and self.is_stranger(headers))
        ):
            self._check_token(headers, "Reading")

    def is_stranger(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether reading needs a token and this request shows neither one, right or wrong, nor the cookie."""
        return self._token_to_read and b"authorization" not in headers and not self._has_cookie(headers)

    def _check_host(self, host: bytes) -> None:
        """A page of another site that resolves its own name to this machine (DNS rebinding) sends that name."""
        if _bare(_text(host)) not in self._hosts:
            raise ServiceError(
                421, "This service does not answer under that host name; start it with --allow-host NAME to do so."
            )

    def _check_origin(self, headers: Mapping[bytes, bytes]) -> None:
        origin = headers.get(b"origin")
        if origin is None:
            return
        try:
            named = urlsplit(_text(origin)).netloc
        except ValueError:
            named = ""
        if not named or named.lower() != _text(headers.get(b"host", b"")).lower():
            raise ServiceError(403, "Pages of other sites may not use this service.")

    def _check_token(self, headers: Mapping[bytes, bytes], what: str) -> None:
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not _is_one_of(given.strip(), self._tokens):
            detail = f"{what} needs a token; send it as `Authorization: Bearer TOKEN`."
            raise ServiceError(401, detail, {"WWW-Authenticate": 'Bearer realm="factlearn"'})

    def _has_cookie(self, headers: Mapping[bytes, bytes]) -> bool:
        for part in headers.get(b"cookie", b"").split(b";"):
            name, _, value = part.strip().partition(b"=")
            if name == COOKIE.encode() and _is_one_of(value, self._readers):
                return True
        return False

    def reader_cookie(self, authorization: str) -> str:
        """The cookie with which a browser that has shown this token may read."""
        token = authorization.partition(" ")[2].strip().encode()
        return _cookie_of(token.decode("latin-1")).decode()


def _cookie_of(token: str) -> bytes:
    """Tells nothing about the token, and allows reading only."""
    return hmac.new(token.encode(), b"factlearn reader", hashlib.sha256).hexdigest().encode()


def _is_one_of(given: bytes, known: Iterable[bytes]) -> bool:
    """In a time that does not depend on how much of it is right."""
    return sum(hmac.compare_digest(given, each) for each in known) > 0


def _bare(host: str) -> str:
    """A host without its port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    if host.count(":") > 1:
        return f"[{host}]"
    return host.partition(":")[0]


def _text(raw: bytes) -> str:
    return raw.decode("latin-1")
