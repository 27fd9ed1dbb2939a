"""The process of a job.

It reads its request from standard input and prints one JSON object per line: progress, then an error or the result.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from factlearn.errors import FactlearnError
from factlearn.progress import listening
from factlearn.server.workers import lower_priority

Tell = Callable[..., None]


def main() -> None:
    """Do what standard input asks."""
    lower_priority(10)
    request = json.load(sys.stdin)
    out, sys.stdout = sys.stdout, sys.stderr  # nothing else may get between the lines

    def tell(**values: Any) -> None:
        print(json.dumps(values, allow_nan=False), file=out, flush=True)

    try:
        with listening(lambda what, done, total: tell(what=what, done=done, total=total)):
            tell(result=_WORK[request["kind"]](request, tell))
    except FactlearnError as error:
        tell(error=str(error))


def _remember(request: dict[str, Any], tell: Tell) -> dict[str, Any]:
    from factlearn.server.importance import remember

    return remember(Path(request["run"]), request["facts"], [Path(path) for path in request["images"]])


def _optimize(request: dict[str, Any], tell: Tell) -> dict[str, Any]:
    from factlearn.retrieval import FactIndex

    index = FactIndex.open(request["index"])
    trials = index.optimize(**request["options"], say=lambda what: tell(what=what))
    return {"trials": [asdict(trial) for trial in trials]}


_WORK: dict[str, Callable[[dict[str, Any], Tell], dict[str, Any]]] = {"importance": _remember, "optimize": _optimize}
