"""A short run of `python -m tests.fuzz`; seeds differ from its default, so that the two do not try the same inputs."""

import pytest

from tests.fuzz import files, texts  # noqa: F401  (they register parsers)
from tests.fuzz.parsers import PARSERS, Parser, fuzz

SLOW = ("runs", "index files", "backups", "sentences", "torch")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name.startswith(SLOW) else name for name in PARSERS]
)
def test_damaged_input_is_read_or_refused_and_nothing_else(name, cache):
    result = fuzz(PARSERS[name], 6 if name.startswith(SLOW) else 30, seed=1)
    assert not result.failures
    assert result.refused


def test_the_fuzzer_notices_other_errors_and_memory():
    def careless(raw):
        if raw == b"ok":
            return
        if len(raw) % 2:
            bytearray(1 << 40)
        raise KeyError(raw)

    kinds = fuzz(Parser("careless", careless, [b"ok"]), 50, seed=0).failures
    assert {kind.split()[0] for kind in kinds} == {"KeyError", "MemoryError"}
