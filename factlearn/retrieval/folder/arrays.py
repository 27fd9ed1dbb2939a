"""Reading arrays that `numpy.save` wrote, without running Python's parser on their headers as `numpy.load` does.

Up to Python 3.11.7 that parser fails at random if another thread parses as well (CPython issue 106905), and several
threads of a service open segments. Only what an index holds is read: numbers and truth values in C order.
"""

import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([<|](?:b1|[iu][1248]|f[248]))', 'fortran_order': False, 'shape': \(([\d, ]*)\), \} *\n"
)


def load_array(path: Path, *, mapped: bool = False) -> NDArray[Any]:
    """The array in a file, in memory or memory-mapped for reading.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it holds no such array, or is longer or shorter than its header says.
    """
    with open(path, "rb") as stream:
        begin = stream.read(len(_MAGIC) + 2)
        length = int.from_bytes(begin[len(_MAGIC) :], "little")
        header = _HEADER.fullmatch(stream.read(length))
        size = os.fstat(stream.fileno()).st_size
    if not begin.startswith(_MAGIC) or header is None:
        raise ValueError("it is no array of numbers")
    shape = tuple(int(part) for part in header[2].decode().split(",") if part.strip())
    dtype, start = np.dtype(header[1].decode()), len(begin) + length
    if start + math.prod(shape) * dtype.itemsize != size:
        raise ValueError("its size is not what its header says")
    if mapped:
        return np.memmap(path, dtype, "r", start, shape)
    return np.fromfile(path, dtype, offset=start).reshape(shape)
