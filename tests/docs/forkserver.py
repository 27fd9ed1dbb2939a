"""A process that has imported torch and its like once, and forks a fresh one for each command of the docs.

`factlearn train …` in a shell then starts in milliseconds, and is still a process of its own with its own files,
exit code and output. The commands `factlearn` and `python` on the PATH of the docs' shell are this file's `ask`.

    request: one JSON line {kind, arguments, folder, environment}, with stdin, stdout and stderr attached
    answer:  one byte, the exit code
"""

import contextlib
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from typing import Any

# Only modules that fill no registry: each command has to find an installed package's additions for itself.
HEAVY = (
    "emoji", "faiss", "gensim.models", "jinja2", "lightning_fabric", "matplotlib.pyplot", "pyarrow.parquet",
    "pydantic.main", "rich.console", "rich.table", "safetensors.torch", "scipy.cluster.hierarchy", "scipy.stats",
    "sklearn.datasets", "torch._dynamo", "torch.func", "typer", "yaml", "factlearn.images", "factlearn.models.vision",
)  # fmt: skip


def serve(address: str) -> None:
    """Wait for requests for ever; each is answered by a process of its own."""
    for name in HEAVY:
        importlib.import_module(name)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    header, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while not header.endswith(b"\n"):
        header += connection.recv(1 << 20)
    child = os.fork()
    if child == 0:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, 64)
        _run(**json.loads(header))
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(BrokenPipeError):  # whoever asked may not care
        connection.sendall(bytes([os.waitstatus_to_exitcode(status) & 0xFF]))
    os._exit(0)


def _run(kind: str, arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    code = 1
    try:
        code = _call(kind, arguments)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _call(kind: str, arguments: list[str]) -> int:
    if kind == "factlearn":
        sys.argv = ["factlearn", *arguments]
        importlib.import_module("factlearn.cli").main()
    elif kind == "python":
        sys.argv = arguments
        sys.path.insert(0, os.path.dirname(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")
    else:
        _session()
    return 0


def _session() -> None:
    """Execute python blocks one after the other; they and the answers come and go through standard input's socket."""
    namespace = {"__name__": "__main__"}
    with socket.socket(fileno=os.dup(0)) as peer, peer.makefile("rw") as stream:
        for line in stream:
            code, page, first = json.loads(line)
            try:
                exec(compile("\n" * first + code, page, "exec"), namespace)
                problem = ""
            except BaseException:
                problem = traceback.format_exc()
            sys.stdout.flush()
            stream.write(json.dumps(problem) + "\n")
            stream.flush()


def send(connection: socket.socket, request: dict[str, Any], streams: Sequence[int]) -> None:
    """Ask a server for something."""
    socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], streams)


def ask(kind: str, address: str, arguments: list[str]) -> int:
    """Run a command here and now; its exit code."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        here = {"folder": os.getcwd(), "environment": dict(os.environ)}
        send(connection, {"kind": kind, "arguments": arguments, **here}, (0, 1, 2))
        return connection.recv(1)[0]


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    sys.exit(ask(sys.argv[1], sys.argv[2], sys.argv[3:]))
