"""Cheap processes to kill: a server imports everything once, and each piece of work is a fork of it.

What a fork does is a function of this package, by name, with plain JSON arguments. Its output goes to a file.
"""

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


def serve():
    """Fork for each line read; say how the process ended.

    A fork that was to be learned from leaves the names of the modules it imported, which later forks then have.
    """
    ends = {signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    for line in sys.stdin:
        request = json.loads(line)
        signals = request.pop("signals")
        gc.freeze()  # so that collecting garbage in the fork does not copy what it shares
        child = os.fork()
        if child == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ends)
            _work(**request)
        for number, seconds in signals:
            if signal.sigtimedwait(ends, seconds):
                break
            os.kill(child, number)  # not yet waited for: the number still belongs to it
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        signal.sigtimedwait(ends, 0)
        for name in Path(request["modules"]).read_text().split() if request["modules"] else ():
            with suppress(Exception):
                importlib.import_module(name)
        print(code, flush=True)


def _work(function, arguments, output, modules):
    code = 1
    try:
        stream = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        module, _, name = function.partition(":")
        code = getattr(importlib.import_module(module), name)(**arguments) or 0
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        if modules:
            Path(modules).write_text("\n".join(sys.modules))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Forks:
    """The server, as seen from the harness."""

    def __init__(self, folder, preload=None):
        self.output = folder / "output.txt"
        self._known = set()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "FACTLEARN_OFFLINE": "1"}
        environment["FACTLEARN_CACHE"] = str(folder / "cache")
        if preload:
            environment["LD_PRELOAD"] = str(preload)
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.soak.forks import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait()

    def run(self, function, signals=(), **arguments):
        """Do a piece of work, with signals sent to it, each some seconds after the one before.

        Returns:
            Its exit code, or minus the signal that ended it.
        """
        first = function not in self._known and not signals
        self._known |= {function} if first else set()
        request = {
            "function": function,
            "arguments": arguments,
            "output": str(self.output),
            "modules": str(self.output.with_name("modules.txt")) if first else "",
            "signals": signals,
        }
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    @property
    def said(self):
        """What the last piece of work printed."""
        return self.output.read_text(errors="replace")
