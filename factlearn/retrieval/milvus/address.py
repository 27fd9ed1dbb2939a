"""The address of a Milvus index.

    milvus://HOST:PORT/COLLECTION                  a server; the default port is 19530
    milvus://USER:PASSWORD@HOST:PORT/COLLECTION    with a user name and password; TOKEN@HOST with a token
    milvus:FOLDER/FILE.db/COLLECTION               a milvus-lite file on this machine

Options follow a question mark and are separated by `&`:

    tls=true                encrypt the connection
    ca=FILE                 the certificate authority to trust, if it is not one that gRPC knows
    cert=FILE&key=FILE      the certificate of this client and its key, for a server that asks for one
    name=HOST               the name in the server's certificate, if it is not HOST
    timeout=SECONDS         how long to wait for an answer, 30 if not given

Credentials that are not in the address are taken from the environment variable MILVUS_TOKEN, `user:password` or a
token. They are never printed.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from factlearn.errors import FactIndexError

PORT = 19530
TIMEOUT = 30.0
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,240}")
_FORMS = "write milvus://host:port/collection or milvus:path/to/file.db/collection"
_FILES = {"ca": "ca_pem_path", "cert": "client_pem_path", "key": "client_key_path"}
_OPTIONS = ("tls", *_FILES, "name", "timeout")


@dataclass(frozen=True)
class Address:
    """The address of an index.

    Attributes:
        uri: for pymilvus.
        collection: of the images; that of the index's record has the suffix `_record`.
        place: the address without secrets.
        token: the credentials, if any.
        timeout: how many seconds to wait for an answer.
        tls: further arguments of pymilvus for an encrypted connection.
    """

    uri: str
    collection: str
    place: str
    token: str = field(default="", repr=False)
    timeout: float = TIMEOUT
    tls: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: Path | str) -> Self:
        """Parse an address.

        Raises:
            FactIndexError: if it is malformed; what may be a password is not repeated.
        """
        rest, _, query = str(text).removeprefix("milvus:").partition("?")
        options = _options(query)
        timeout = _seconds(options.get("timeout"))
        shown = f"?{urlencode(options, safe='/')}" if options else ""
        found = cls._server(rest, options, shown, timeout) if rest.startswith("//") else cls._file(rest, shown, timeout)
        if not _NAME.fullmatch(found.collection):
            raise FactIndexError(
                f"{found.collection!r} is not a Milvus collection name; use letters, digits and _, a letter first."
            )
        return found

    @classmethod
    def _server(cls, rest: str, options: dict[str, str], shown: str, timeout: float) -> Self:
        try:
            parts = urlsplit(f"milvus:{rest}")
            host, port = parts.hostname, parts.port or PORT
        except ValueError:
            host, port = None, PORT
        if not host:
            raise FactIndexError(f"The address of the Milvus index names no host; {_FORMS}.")
        secret = unquote(parts.netloc.rpartition("@")[0]) or os.environ.get("MILVUS_TOKEN", "")
        host = f"[{host}]" if ":" in host else host
        collection = parts.path.strip("/")
        encrypted = options.get("tls") == "true"
        tls = _tls(options) if encrypted else ()
        place = f"milvus://{host}:{port}/{collection}{shown}"
        uri = f"{'https' if encrypted else 'http'}://{host}:{port}"
        return cls(uri, collection, place, secret, timeout, tls)

    @classmethod
    def _file(cls, rest: str, shown: str, timeout: float) -> Self:
        file, _, collection = rest.rpartition("/")
        if not file.endswith(".db"):
            what = "The address of the Milvus index" if "@" in rest else f"milvus:{rest}"
            raise FactIndexError(f"{what} names no .db file and collection; {_FORMS}.")
        return cls(str(Path(file).absolute()), collection, f"milvus:{rest}{shown}", timeout=timeout)

    @property
    def file(self) -> Path | None:
        """The milvus-lite file, unless it is a server."""
        return None if "://" in self.uri else Path(self.uri)


def _options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in options.items():
        if name not in _OPTIONS:
            raise FactIndexError(f"An address of a Milvus index has no option {name!r}; it has {', '.join(_OPTIONS)}.")
        if name == "tls" and value not in ("true", "false"):
            raise FactIndexError(f"The option tls is {value!r} in the address of a Milvus index; write true or false.")
    if (needing := options.keys() - {"tls", "timeout"}) and options.get("tls") != "true":
        raise FactIndexError(
            f"The option {min(needing)} only applies to an encrypted connection; add tls=true to the address."
        )
    return options


def _seconds(text: str | None) -> float:
    if text is None:
        return TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise FactIndexError(
            f"The option timeout is {text!r} in the address of the Milvus index; write seconds, such as timeout=60."
        )
    return seconds


def _tls(options: dict[str, str]) -> tuple[tuple[str, str], ...]:
    if len(given := options.keys() & {"cert", "key"}) == 1 or (given and "ca" not in options):
        raise FactIndexError("A client's certificate needs its key and the authority; give ca, cert and key together.")
    for name in _FILES:
        if name in options and not Path(options[name]).is_file():
            raise FactIndexError(f"There is no file {options[name]}, which the address gives as {name}.")
    # pymilvus takes a lone certificate of an authority as `server_pem_path`, and `ca_pem_path` only beside a client's.
    names = _FILES if given else {"ca": "server_pem_path"}
    found = {argument: options[name] for name, argument in names.items() if name in options}
    if "name" in options:
        found["server_name"] = options["name"]
    return tuple(found.items())
