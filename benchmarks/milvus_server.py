"""The index in a real Milvus server: the same answers as a folder, nothing acknowledged lost, and how fast it is.

    python benchmarks/milvus_server.py answers [--queries 1000]     random queries, beside a folder and brute force
    python benchmarks/milvus_server.py kills [--kills 20]           SIGKILLs of the server while images are added
    python benchmarks/milvus_server.py figures [--counts 10000 ...]  times, beside milvus-lite and a folder

Each starts its own server (see `tests/retrieval/milvus/server.py`; `make milvus-test` installs it) on an empty folder,
in a network namespace without anything but loopback, and kills it at the end.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from factlearn.errors import FactIndexError
from factlearn.retrieval import FactIndex
from factlearn.retrieval.search import Question, nearest

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.retrieval.milvus.images import check_random_queries, collection, in_two_steps, make
from tests.retrieval.milvus.server import Server, isolate, package

STORES = ("folder", "milvus-lite", "server")


def answers(server: Server, folder: Path, queries: int) -> None:
    """Random queries with filters, weights, wildcards and pages: hits of the folder, ids of brute force."""
    images = collection()
    both = [in_two_steps(place, images) for place in (server.address(), folder / "index")]
    began = time.monotonic()
    check_random_queries((*both, images), queries, seed=2)
    print(f"{queries} random queries: identical to the folder and to brute force ({time.monotonic() - began:.0f} s)")


def batch(turn: int, known: dict[str, np.ndarray]) -> dict[str, Any]:
    """New images, and a few that are there with other vectors."""
    images = collection(60, seed=turn)
    images["ids"] = [f"turn {turn}/{name}" for name in images["ids"]]
    for place, name in enumerate(sorted(known)[:: max(1, len(known) // 10)][:10]):
        images["ids"][place] = name
    return images


def check_kept(index: FactIndex, known: dict[str, np.ndarray], maybe: dict[str, np.ndarray]) -> None:
    """Every acknowledged image is there with its vector; one that was being replaced may have the new one."""
    found = dict(zip(index.ids, index.vectors, strict=True))
    lost = known.keys() - found.keys()
    wrong = [
        name
        for name, vector in known.items()
        if name in found
        and not np.array_equal(found[name], vector)
        and not (name in maybe and np.array_equal(found[name], maybe[name]))
    ]
    strange = found.keys() - known.keys() - maybe.keys()
    if lost or wrong or strange:
        sys.exit(f"{len(lost)} acknowledged images are lost, {len(wrong)} are wrong, {len(strange)} are strange")


def kills(server: Server, count: int, seed: int) -> None:
    """Kill the server at random instants of `add`; after each restart look for what was acknowledged, then repeat."""
    pick = random.Random(seed)
    first = collection(300)
    make(server.address(), first)
    known = dict(zip(first["ids"], first["vectors"], strict=True))
    taken, acknowledged, began_all = 12.0, 0, time.monotonic()
    for turn in range(1, count + 1):
        images = batch(turn, known)
        maybe = dict(zip(images["ids"], images["vectors"], strict=True))
        said: list[str] = []
        index = FactIndex.open(server.address(options="?timeout=5"))

        def add(index: FactIndex = index, images: dict[str, Any] = images, said: list[str] = said) -> None:
            try:
                index.add(**images, model="m1")
                said.append("acknowledged")
            except FactIndexError as error:
                said.append(str(error))

        thread, delay = threading.Thread(target=add), pick.uniform(0, taken)
        thread.start()
        thread.join(delay)
        server.kill()
        thread.join()
        if said == ["acknowledged"]:
            known |= maybe
            acknowledged += 1
        restarted, began = server.start(), time.monotonic()
        index = FactIndex.open(server.address(options="?timeout=180"))
        opened = time.monotonic() - began
        check_kept(index, known, maybe)
        if said != ["acknowledged"]:
            began = time.monotonic()
            index.add(**images, model="m1")
            taken = 0.5 * taken + 0.5 * (time.monotonic() - began)
            known |= maybe
        check_kept(index, known, {})
        if problems := index.verify():
            sys.exit(problems[0])
        print(
            f"{time.monotonic() - began_all:4.0f} s: kill {turn} after {delay:.1f} s: {said[0][:90]}; "
            f"healthy after {restarted:.1f} s, open {opened:.1f} s later, {len(index)} images",
            flush=True,
        )
    print(f"{count} kills during adds, {acknowledged} of them just after the acknowledgement: 0 images lost, 0 wrong")


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = function()
    return time.perf_counter() - began, found


def figures(
    server: Server, folder: Path, counts: list[int], queries: int, dimension: int | None, stores: list[str]
) -> None:
    """Each store at each size: seconds to build, add and open, milliseconds of a query."""
    import index as bench

    if dimension:
        bench.DIMENSION, bench.WIDTH = dimension, 3 * dimension + 3
    space = bench.language()
    asked = bench.questions(queries, space)
    for count in counts:
        table = Table(title=f"{count:,} images of 3 x {bench.DIMENSION}, {queries} queries for 10 images")
        for column in ("", "build s", "images/s", "add 1,000 s", "open s", "first ms", "p50 ms", "p99 ms", "server MB"):
            table.add_column(column, justify="left" if not column else "right")
        expected: list[list[str]] = []
        places = {
            "folder": str(folder / f"index{count}"),
            "milvus-lite": f"milvus:{folder}/lite{count}.db/pictures",
            "server": server.address(f"c{count}"),
        }
        for name, place in ((name, places[name]) for name in stores):
            row, found = measured(place, count, space, asked, bench)
            expected = expected or found
            if found != expected:
                sys.exit(f"{name} answers otherwise than the folder")
            table.add_row(name, *row, f"{server.memory():.0f}" if name == "server" else "")
            print(f"{count:,} {name}: done", file=sys.stderr, flush=True)
        Console(width=120).print(table)


def measured(place: str, count: int, space: Any, asked: list[Question], bench: Any) -> tuple[list[str], list[Any]]:
    """One row of the table, and the answers."""
    vectors = np.concatenate(list(bench.chunks(count + 1000, space)))
    ids = [f"{number:08d}" for number in range(len(vectors))]
    options = {"model": "m", "known_facts": bench.facts()}
    first = {"vectors": vectors[:count], "ids": ids[:count], "paths": ids[:count]}
    last = {"vectors": vectors[count:], "ids": ids[count:], "paths": ids[count:]}
    built, index = timed(lambda: FactIndex.create(place, **first, language=space, **options))
    added, _ = timed(lambda: index.add(**last, **options))
    opened, index = timed(lambda: FactIndex.open(place))

    def ask(question: Question) -> list[str]:
        return [item["id"] for item in index.store.items(nearest(index.store, [question], 10)[0].keys)]

    first_query, _ = timed(lambda: ask(asked[0]))
    times, found = zip(*(timed(lambda question=question: ask(question)) for question in asked), strict=True)
    milliseconds = [f"{1000 * value:.1f}" for value in (first_query, *np.percentile(times, [50, 99]))]
    return [f"{built:.1f}", f"{count / built:,.0f}", f"{added:.1f}", f"{opened:.2f}", *milliseconds], list(found)


def main() -> None:
    """Start a server and run one of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("answers", "kills", "figures"), default="answers")
    parser.add_argument("--queries", type=int)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--counts", nargs="+", type=int, default=[10_000])
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    parser.add_argument("--dimension", type=int, help="of a unit's vector; 300 if not given")
    given = parser.parse_args()
    if package() is None:
        print("The Milvus server is not installed (run `make milvus-test`), so it is left out.")
        return
    isolate()
    with tempfile.TemporaryDirectory(prefix="factlearn-milvus-") as place:
        data = Path(place) / "server"
        data.mkdir()
        with Server(data) as server:
            if given.what == "answers":
                answers(server, Path(place), given.queries or 1000)
            elif given.what == "kills":
                kills(server, given.kills, given.seed)
            else:
                figures(server, Path(place), given.counts, given.queries or 105, given.dimension, given.stores)


if __name__ == "__main__":
    main()
