"""`--devices N`: starts N processes that run the same command together, and watches over them.

A process that fails leaves its sentence in a file and ends; the others lose their connection to it and end too. The one
that started them prints one sentence and ends with the exit code of a process that had failed alone.
"""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from factlearn.errors import FactlearnError, ProcessLost, RunError, StoppedError

DevicesOption = Annotated[
    int | None,
    typer.Option(
        min=1, help="Number of training processes, one per GPU if there are GPUs; leave out under torchrun or SLURM."
    ),
]
NodesOption = Annotated[
    int | None,
    typer.Option(min=1, help="Number of machines; each runs this command with its own NODE_RANK."),
]
_PARENT_DEATH = 1
_PER_CORE = 4
_SECONDS_TO_END = 15.0
_LOST, _INTERRUPTED, _TERMINATED = 75, 130, 143


def started_here(devices: int | None, nodes: int | None, how_to_resume: str) -> bool:
    """Run this command in several processes if that is asked for and nobody else has started them.

    Args:
        how_to_resume: what the user does after a process was lost.

    Returns:
        Whether it was; False tells the caller to run the command itself.

    Raises:
        FactlearnError: if a process failed.
    """
    devices, nodes = devices or 1, nodes or 1
    if devices * nodes == 1:
        return False
    most = _PER_CORE * (os.cpu_count() or 1)
    if devices > most:
        raise RunError(
            f"--devices {devices} is too many for this machine; choose at most {most}, {_PER_CORE} per core."
        )
    from factlearn.learning.engine import MEMBER, launched

    if MEMBER in os.environ or launched():
        return False
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK") if name not in os.environ]
    if nodes > 1 and missing:
        raise RunError(
            f"--nodes needs {', '.join(missing)} in the environment: the address of the first machine, a free port "
            "there, and the number of each machine from 0; or let torchrun or srun start the processes."
        )
    with tempfile.TemporaryDirectory() as reports:
        environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": _free_port(), **os.environ}
        members = [_start(rank, Path(reports), environment) for rank in range(devices)]
        _pass_on_sigterm(members)
        try:
            failed = _watch(members)
        except KeyboardInterrupt:
            members[0].send_signal(signal.SIGINT)  # it alone writes, and must leave nothing half-written
            with suppress(subprocess.TimeoutExpired):
                members[0].wait(_SECONDS_TO_END)
            raise
        finally:
            _end(members)
        if failed:
            raise _reason(members, failed, Path(reports), how_to_resume)
    return True


def _start(rank: int, reports: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    own = {"LOCAL_RANK": str(rank), "FACTLEARN_MEMBER": str(reports / str(rank))}
    command = [sys.executable, "-c", "from factlearn.cli.processes import member; member()", *sys.argv[1:]]
    # In a session of their own: a Ctrl-C reaches them through this process alone.
    return subprocess.Popen(command, env={**environment, **own}, stdin=subprocess.DEVNULL, start_new_session=True)


def _pass_on_sigterm(members: list[subprocess.Popen[bytes]]) -> None:
    """At SIGTERM let the members keep a checkpoint and leave; a second one ends this process, and them with it."""

    def handle(number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for member in members:
            member.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, handle)


def _free_port() -> str:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def _watch(members: list[subprocess.Popen[bytes]]) -> list[int]:
    """Wait for all to end; those that failed, the first to do so first."""
    failed: list[int] = []
    deadline = float("inf")
    while any(member.poll() is None for member in members) and time.monotonic() < deadline:
        time.sleep(0.05)
        for rank, member in enumerate(members):
            if member.poll() and rank not in failed:
                failed.append(rank)
                deadline = min(deadline, time.monotonic() + _SECONDS_TO_END)
    return failed + [rank for rank, member in enumerate(members) if member.poll() and rank not in failed]


def _end(members: list[subprocess.Popen[bytes]]) -> None:
    for member in members:
        if member.poll() is None:
            member.kill()
    for member in members:
        member.wait()


def _reason(
    members: list[subprocess.Popen[bytes]], failed: list[int], reports: Path, how_to_resume: str
) -> FactlearnError:
    """The sentence of the process that failed first, or how it ended if it left none."""
    for rank in failed:
        if (reports / str(rank)).is_file():
            kind = StoppedError if members[rank].returncode == _TERMINATED else FactlearnError
            return kind((reports / str(rank)).read_text(encoding="utf-8"))
    culprit = next((rank for rank in failed if members[rank].returncode != _LOST), failed[0])
    code = members[culprit].returncode
    ended = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return ProcessLost(f"Process {culprit + 1} of {len(members)} {ended}, so all have stopped; {how_to_resume}.")


def member() -> None:
    """Run the command line as one of several processes: a sentence for the user goes to the one that started them."""
    from factlearn.cli import app

    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)  # nobody is left to watch over this one
    try:
        app()
    except ProcessLost:
        sys.exit(_LOST)
    except StoppedError as error:
        _report(str(error), _TERMINATED)
    except FactlearnError as error:
        _report(str(error))
    except SystemExit as stop:
        sys.exit(stop.code)
    except OSError as error:
        _report(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.")


def _report(sentence: str, code: int = 2) -> None:
    Path(os.environ["FACTLEARN_MEMBER"]).write_text(sentence, encoding="utf-8")
    sys.exit(code)
