"""What every request passes: the doorkeeper, the rate limit, bounds on size and time, strict headers, one log line."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from factlearn.server.metrics import Metrics
from factlearn.server.problems import ServiceError, busy, problem
from factlearn.server.rate import RateLimit
from factlearn.server.security import HEADERS, Doorkeeper
from factlearn.server.settings import Settings

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

UPLOADS = frozenset({"/api/v1/images", "/api/v1/facts", "/api/v1/search/image"})
_FORM_BYTES = 64_000  # what the fields beside a picture may take
_UPLOAD_COST = 5.0
_DRAINED, _DRAIN_SECONDS = 4, 3.0
_BY_ID = "/api/v1/images/"
log = logging.getLogger("factlearn.server")


class Guard:
    """ASGI middleware around the whole app."""

    def __init__(self, app: App, settings: Settings, metrics: Metrics, doorkeeper: Doorkeeper) -> None:
        self.app = app
        self.limits = settings.limits
        self.metrics = metrics
        self.doorkeeper = doorkeeper
        self.rate = RateLimit(settings.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        answer = _Answer(send)
        started = time.perf_counter()
        try:
            await self._pass_on(scope, receive, answer)
        finally:
            self._record(scope, answer, time.perf_counter() - started)

    async def _pass_on(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        headers = dict(scope["headers"])
        path, method = scope["path"], scope["method"]
        client = (scope.get("client") or ("unknown",))[0]
        try:
            self.doorkeeper.check(method, path, headers)
            self.rate.check(client, _UPLOAD_COST if method == "POST" and path in UPLOADS else 1.0)
            body = _Body(receive, answer, self._most_bytes(method, path), self.limits.body_seconds)
            body.check_length(headers.get(b"content-length"))
            if path.startswith(_BY_ID):  # as sent, so that a slash inside an id is told from one that ends it
                scope["path"] = scope["raw_path"].decode("ascii", "replace")
            patience = None if path.endswith("/events") else self.limits.answer_seconds
            async with asyncio.timeout(patience):
                await self.app(scope, body.receive, answer.send)
        except ServiceError as refused:
            answer.refusal = refused
            if refused.status == 413:
                await _drain(receive, self._most_bytes(method, path))
        except TimeoutError:
            answer.refusal = busy("The answer took too long")
        await answer.finish(scope, receive)

    def _most_bytes(self, method: str, path: str) -> int:
        if method == "POST" and path in UPLOADS:
            return self.limits.upload_bytes + _FORM_BYTES
        return self.limits.body_bytes

    def _record(self, scope: Scope, answer: "_Answer", seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None) or "other"
        status = str(answer.status or 499)
        self.metrics.requests.labels(scope["method"] if route != "other" else "any", route, status).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        if log.isEnabledFor(logging.INFO):
            client = (scope.get("client") or ("unknown",))[0]
            line = {"client": client, "method": scope["method"], "path": scope["path"], "status": int(status)}
            log.info(json.dumps({**line, "ms": round(1000 * seconds, 1)}))  # JSON: a newline in a path stays one line


async def _drain(receive: Receive, most: int) -> None:
    """Read a little more of a body that is too long: a client that is still sending would miss the answer."""
    left = _DRAINED * most
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


class _Body:
    """The body of a request, given up when it is too long or too slow."""

    def __init__(self, receive: Receive, answer: "_Answer", most: int, seconds: float) -> None:
        self._receive = receive
        self._answer = answer
        self._left = self._most = most
        self._until = time.monotonic() + seconds
        self._complete = False

    def check_length(self, announced: bytes | None) -> None:
        if announced is not None and announced.isdigit() and int(announced[:20]) > self._most:
            raise self._too_long()

    def _too_long(self) -> ServiceError:
        return ServiceError(413, f"The request is longer than {self._most:,} bytes.", {"Connection": "close"})

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.0, self._until - time.monotonic())):
                message = await self._receive()
        except TimeoutError:
            late = ServiceError(408, "The request took too long to arrive.", {"Connection": "close"})
            self._answer.refusal = late
            raise late from None
        self._left -= len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._left < 0:
            self._answer.refusal = self._too_long()
            raise self._answer.refusal
        return message


class _Answer:
    """The response on its way out: headers are added, and a refusal takes its place if nothing was sent yet."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None
        self.refusal: ServiceError | None = None

    async def send(self, message: Message) -> None:
        if self.refusal is not None and self.status is None:
            return  # what a parser made of the interruption; the refusal follows
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *(each for each in HEADERS if each[0] not in present)]
            if b"cache-control" not in present:
                message["headers"].append((b"cache-control", b"no-store"))
        await self._send(message)

    async def finish(self, scope: Scope, receive: Receive) -> None:
        """Send the refusal, if there is one and nothing else was sent."""
        refusal, self.refusal = self.refusal, None
        if refusal is not None and self.status is None:
            with suppress(OSError):
                await problem(refusal.status, refusal.detail, refusal.headers)(scope, receive, self.send)
