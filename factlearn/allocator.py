"""Keeping freed memory on a CPU.

glibc gives every large block back to the system when it is freed. A training step frees and takes hundreds of megabytes
of gradients and activations, and having the system clear those pages anew costs as much time as the arithmetic. Told to
keep them, a step of the demo's network takes less than half the time (`make bench`).
"""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Let the process keep freed memory for itself; does nothing where the C library is not glibc."""
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_THRESHOLD, 1 << 30)
    mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
