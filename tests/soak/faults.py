"""Making one file operation of a process fail, by a small library that is preloaded into it (`faults.c`)."""

import ctypes
import errno
import shutil
import subprocess
from enum import IntEnum
from pathlib import Path

SOURCE = Path(__file__).with_name("faults.c")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS)


class Mode(IntEnum):
    """What happens at the chosen call."""

    COUNT = 0
    FAIL = 1
    FAIL_FROM = 2
    SHORT = 3
    KILL_BEFORE = 4
    KILL_AFTER = 5


def compiler():
    """The C compiler; None where there is none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(folder):
    """The library, compiled."""
    library = folder / "faults.so"
    command = [compiler(), "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


def arm(folder, nth=0, mode=Mode.COUNT, code=0):
    """Count the calls that change files below a folder from now on; something happens at the nth."""
    ctypes.CDLL(None).faults_arm(str(folder).encode(), ctypes.c_long(nth), int(mode), code)


def counted():
    """How many calls there were since `arm`."""
    count = ctypes.CDLL(None).faults_counted
    count.restype = ctypes.c_long
    return count()
