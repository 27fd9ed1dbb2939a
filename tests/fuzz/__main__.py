"""`python -m tests.fuzz --count 100000`: every parser on that many damaged inputs; only a FactlearnError may come."""

import argparse
import os
import signal
import sys
import traceback

from tests.fuzz import files, texts  # noqa: F401  (they register parsers)
from tests.fuzz.parsers import PARSERS, fuzz


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=100_000, help="inputs per parser")
    options.add_argument("--seconds", type=float, default=float("inf"), help="stop each parser after this long")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", default="", help="parsers whose names contain this")
    chosen = options.parse_args()
    failed = 0
    for name, parser in PARSERS.items():
        if chosen.only in name:
            failed += _in_a_process(parser, chosen)
    sys.exit(bool(failed))


def _in_a_process(parser, chosen):
    """Fuzz in a process of its own, which may crash; returns whether anything was wrong."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            code = _report(parser, fuzz(parser, chosen.count, chosen.seed, chosen.seconds))
        except Exception:
            print(f"{parser.name}: not fuzzed\n{traceback.format_exc()}")
        finally:
            sys.stdout.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        print(f"{parser.name}: the process was ended by {signal.Signals(-code).name}", flush=True)
    return code != 0


def _report(parser, result):
    total, rate = result.accepted + result.refused, (result.accepted + result.refused) / max(result.seconds, 1e-9)
    kinds = len(result.failures)
    print(f"{parser.name:36s} {total:8,d} inputs, {result.refused:8,d} refused, {rate:6,.0f}/s, {kinds} other errors")
    for kind, (raw, trace) in result.failures.items():
        print(f"    {kind}\n    {raw[:300]!r}\n{trace}")
    return bool(kinds)


if __name__ == "__main__":
    main()
