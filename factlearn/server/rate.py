"""How often one client may ask: a bucket per address that refills steadily."""

import math
import time
from collections import OrderedDict

from factlearn.server.problems import ServiceError

_MOST_CLIENTS = 10_000
_BURST_SECONDS = 5.0


class RateLimit:
    """Allows `rate` requests per second and client in the long run, and bursts of five seconds' worth."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._burst = max(rate * _BURST_SECONDS, 10.0)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, client: str, cost: float = 1.0) -> None:
        """Take a request from a client's bucket.

        Raises:
            ServiceError: if it is empty, with the seconds until it is not.
        """
        if not self.rate:
            return
        now = time.monotonic()
        left, last = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - last) * self.rate)
        allowed = left >= cost
        self._buckets[client] = (left - cost if allowed else left, now)
        while len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        if not allowed:
            seconds = max(1, math.ceil((cost - left) / self.rate))
            detail = f"Too many requests from this address; try again in {seconds} s."
            raise ServiceError(429, detail, {"Retry-After": str(seconds)})
