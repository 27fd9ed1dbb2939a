"""Running commands as users type them."""

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from factlearn.cli import main

ROOT = Path(__file__).parents[2]


@dataclass
class Done:
    """What a command left: its exit code and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def factlearn(*arguments, cwd):
    """Run a command in this process, which has torch loaded already."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.setenv("COLUMNS", "160")
        patch.setattr(sys, "argv", ["factlearn", *map(str, arguments)])
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code or 0
    return Done(code, out.getvalue(), err.getvalue())


def output_of(*arguments, cwd):
    """What a command that succeeds prints."""
    done = factlearn(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_a_process(*arguments, cwd, code="from factlearn.cli import main; main()"):
    """Run a command as a shell does, from this checkout."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=120)


def write(folder, name, content):
    """A file with this content; its name."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name
