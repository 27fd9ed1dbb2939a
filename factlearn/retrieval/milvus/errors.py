"""What an error of Milvus means: whether it passes by itself, and what to tell the user."""

from typing import Any

from factlearn.retrieval.milvus.address import Address

_PASSING = {  # codes of a server that starts, recovers or moves data
    *(2, 4, 8),  # unavailable, too many requests
    *(101, 103, 104, 105, 106),  # a collection is not loaded, not loaded fully, recovering
    *(400, 401, 500, 501, 502, 503),  # a replica or channel is not there yet
    *(600, 601, 602, 900, 901, 902, 903, 904),  # nor a segment or node
}
_UNREACHABLE = "server unavailable"
_SIGNS = (
    *("not loaded", "not ready", "recover", "no available", "node not match", "initializing", "abnormal"),
    "flush timeout",
)


def is_away(error: Exception) -> bool:
    """Whether there was no answer at all; pymilvus then says that it failed to connect again."""
    status = _status(error)
    return status in ("UNAVAILABLE", "DEADLINE_EXCEEDED") or (not status and _UNREACHABLE in _text(error))


def is_passing(error: Exception) -> bool:
    """Whether the same call may work a moment later."""
    if _status(error) in ("UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT", "UNIMPLEMENTED"):
        return False
    if is_away(error) or getattr(error, "retriable", False):
        return True
    code = getattr(error, "code", None)
    text = _text(error).lower()
    return (isinstance(code, int) and code in _PASSING) or any(sign in text for sign in _SIGNS)


def sentence(address: Address, what: str, error: Exception, limit: float) -> str:
    """What failed, where, and what to do."""
    status, place = _status(error), address.place
    if status == "UNAUTHENTICATED" or "auth check failure" in _text(error):
        given = "the user name and password" if address.token else "a client without user name and password"
        return f"{place} refuses {given}; give them in the address, user:password@host, or in MILVUS_TOKEN."
    if status == "PERMISSION_DENIED":
        return f"{place} does not allow this user to {what}; ask its administrator for the right to."
    if is_away(error) or status == "UNKNOWN" or _UNREACHABLE in _text(error):
        why = "cannot be reached" if status != "DEADLINE_EXCEEDED" else "does not answer"
        plain = what == "open" and not address.uri.startswith("https")
        tls = " and whether it wants TLS (tls=true in the address)" if plain else ""
        return f"{place} {why} (tried for {limit:.0f} s to {what}); check that the Milvus server runs there{tls}."
    hint = " (does another process hold the file?)" if address.file and what == "open" else ""
    return f"{place} failed to {what}: {_text(error)}{hint}; check the address and the server."


def _text(error: Exception) -> str:
    """The first line of an error's message."""
    details: Any = getattr(error, "message", None)
    if not isinstance(details, str):
        details = getattr(error, "details", None)
        details = details() if callable(details) else str(error)
    lines = str(details or error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _status(error: BaseException) -> str:
    """The status of the gRPC call below an error, such as UNAVAILABLE; empty if there is none."""
    below: BaseException | None = error
    while below is not None:
        code: Any = getattr(below, "code", None)
        code = code() if callable(code) else code
        if isinstance(getattr(code, "value", None), tuple):  # grpc.StatusCode
            return str(code.name)
        if isinstance(below, TimeoutError):
            return "DEADLINE_EXCEEDED"
        below = None if below.__cause__ is below else below.__cause__  # pymilvus raises errors from themselves
    return ""
