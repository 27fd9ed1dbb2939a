"""The registry of parsers, and running one on many inputs."""

import atexit
import random
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from factlearn.errors import FactlearnError
from tests.fuzz.mutation import mutated

PARSERS = {}
_ROOM = 2 << 30
_PATIENCE_SECONDS = 20
_folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
atexit.register(shutil.rmtree, _folder, ignore_errors=True)


def written(name, raw):
    """A file with this content."""
    path = _folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def folder(name):
    """An empty folder."""
    path = _folder / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


@dataclass
class Parser:
    """A parser: a function of bytes that may only raise a `FactlearnError`.

    Attributes:
        seeds: inputs, the first of which is right, or a function that makes them when they are first needed.
    """

    name: str
    run: object
    seeds: object
    tokens: tuple = ()
    _made: list = field(default_factory=list)

    def inputs(self):
        if not self._made:
            self._made += self.seeds() if callable(self.seeds) else self.seeds
        return self._made


def parser(name, seeds, tokens=()):
    """Register a parser under a name."""

    def register(function):
        PARSERS[name] = Parser(name, function, seeds, tokens)
        return function

    return register


@dataclass
class Result:
    """What came of many inputs.

    Attributes:
        failures: what was raised besides a `FactlearnError`, each kind once, with the input.
    """

    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    failures: dict = field(default_factory=dict)


def fuzz(parser, count, seed, seconds=float("inf")):
    """Run a parser on so many inputs that are almost right, or for so long, within bounds of memory and time each."""
    seeds, rng, result = parser.inputs(), random.Random(f"{parser.name} {seed}"), Result()
    parser.run(seeds[0])  # which is right; others may be refused for some fine point
    started = time.monotonic()
    with _bounds(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(count):
            if time.monotonic() - started > seconds:
                break
            raw = mutated(rng, seeds, parser.tokens)
            signal.alarm(_PATIENCE_SECONDS)
            try:
                parser.run(raw)
                result.accepted += 1
            except FactlearnError:
                result.refused += 1
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                place = traceback.extract_tb(error.__traceback__)[-1]
                kind = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
                result.failures.setdefault(kind, (raw, "".join(traceback.format_exception(error)[-6:])))
            finally:
                signal.alarm(0)
    result.seconds = time.monotonic() - started
    return result


class _bounds:
    """Memory beyond what is in use now is limited, and an input that takes too long is an error."""

    def __enter__(self):
        self._before = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _ROOM, self._before[1]))
        self._handler = signal.signal(signal.SIGALRM, _too_slow)

    def __exit__(self, *_):
        resource.setrlimit(resource.RLIMIT_AS, self._before)
        signal.signal(signal.SIGALRM, self._handler)


def _too_slow(number, frame):
    raise TimeoutError(f"more than {_PATIENCE_SECONDS} s")
