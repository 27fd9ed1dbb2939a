"""Requests to a service: errors become exceptions, and a service that is busy is asked again."""

import time
from collections.abc import Mapping
from typing import Any

import httpx

from factlearn.errors import FactlearnError

_API = "/api/v1"
_BUSY = (429, 503)
_LONGEST_PAUSE = 10.0
_LARGEST_PORT = 65535


class ClientError(FactlearnError):
    """An error from the service, with its message.

    Attributes:
        status: the HTTP status; 0 if the service was not reached.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Connection:
    """A service's address, and the token to show it."""

    def __init__(self, url: str, token: str | None, timeout: float, retries: int) -> None:
        if token and not (token.isascii() and token.isprintable()):
            raise FactlearnError("The token is not plain ASCII; give one line of the service's token file.")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._http = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=timeout)
            if (self._http.base_url.port or 0) > _LARGEST_PORT:
                raise httpx.InvalidURL(f"the port is above {_LARGEST_PORT}")
        except httpx.InvalidURL as error:
            raise FactlearnError(f"{url!r} is no address of a service ({error}).") from None
        self.url = url
        self._timeout = timeout
        self._retries = retries

    def json(self, method: str, path: str, **options: Any) -> Any:
        """The JSON of an answer.

        Raises:
            ClientError: if the service cannot be reached or refuses, or something else answers there.
        """
        response = self.send(method, path, **options)
        try:
            return response.json()
        except ValueError:
            detail = f"What answers at {self.url} is not a factlearn service; check the address."
            raise ClientError(response.status_code, detail) from None

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """An answer.

        Raises:
            ClientError: if the service cannot be reached or refuses.
        """
        if "params" in options:
            options["params"] = _given(options["params"])
        for left in range(self._retries, -1, -1):
            try:
                response = self._http.request(method, _API + path, **options)
            except httpx.ReadTimeout:
                raise ClientError(0, f"The service at {self.url} gave no answer in {self._timeout:g} s.") from None
            except httpx.HTTPError as error:
                raise ClientError(0, f"The service at {self.url} cannot be reached ({error}).") from None
            if response.is_success:
                return response
            if response.status_code not in _BUSY or not left:
                raise ClientError(response.status_code, _detail(response))
            time.sleep(_pause(response))
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def _given(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _detail(response: httpx.Response) -> str:
    try:
        return str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"The service answered {response.status_code} {response.reason_phrase}."


def _pause(response: httpx.Response) -> float:
    after = response.headers.get("retry-after", "1")
    return min(float(after) if after.isdigit() else 1.0, _LONGEST_PAUSE)
