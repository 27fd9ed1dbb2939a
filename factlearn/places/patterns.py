"""Several tars by one name: `shard-{0000..0099}.tar`, as WebDataset writes it, or `shard-*.tar`."""

import glob
import re
from pathlib import Path

from factlearn.errors import DatasetError
from factlearn.places.remote import is_remote
from factlearn.places.tars import SUFFIX

_RANGE = re.compile(r"\{(\d{1,9})\.\.(\d{1,9})\}")
_MOST = 100_000


def expand(pattern: str) -> list[Path]:
    """The tars that a pattern names, in order; none if it is no such pattern.

    Raises:
        DatasetError: if it names too many, or no file that exists.
    """
    if not pattern.lower().endswith(SUFFIX):
        return []
    if _RANGE.search(pattern):
        return [Path(name).expanduser() for name in _numbered(pattern)]
    if is_remote(pattern) or not glob.has_magic(pattern) or Path(pattern).exists():
        return []
    found = sorted(glob.glob(str(Path(pattern).expanduser())))
    if not found:
        raise DatasetError(f"No file is called {pattern}.")
    return [Path(name) for name in found]


def _numbered(pattern: str) -> list[str]:
    names = [pattern]
    while match := _RANGE.search(names[0]):
        first, last = (int(group) for group in match.groups())
        count = last - first + 1
        if not 0 < count * len(names) <= _MOST:
            raise DatasetError(f"The pattern {pattern} names no file, or more than {_MOST:,}.")
        numbers = [f"{number:0{len(match[1])}d}" for number in range(first, last + 1)]
        names = [_RANGE.sub(number, name, count=1) for name in names for number in numbers]
    return names
