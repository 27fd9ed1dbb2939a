"""A client of the search service, with the methods of `FactIndex`.

Example:
    >>> with Client("http://127.0.0.1:8765") as index:  # doctest: +SKIP
    ...     hits = index.query("<person, riding, *>", k=5)
"""

from factlearn.client.client import Client
from factlearn.client.connection import ClientError

__all__ = ["Client", "ClientError"]
