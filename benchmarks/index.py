"""The index beside plain FAISS, milvus-lite, LanceDB and usearch, on the same vectors in one run.

    python benchmarks/index.py [--counts 10000 100000 1000000] [--peers ...] [--queries 105]

Vectors of 3 x 300 are made from 500 units for each of subject, predicate and object, with noise around them as a model
leaves it. Queries cover all seven patterns of open units alike. Peers get the same rows and inner-product queries
(`factlearn/retrieval/search.py`), so that they can answer them at all; each is asked one query at a time, interleaved.

    build, open       seconds to write the index, and to open it in a fresh process and answer the first query
    p50, p99          milliseconds of a query for 10 images
    recall            share of the exact ten best, queries with all units | with open units
    resident          megabytes of the fresh process beyond its imports, after all queries
"""

import argparse
import gc
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gensim.models import KeyedVectors
from rich.console import Console
from rich.table import Table

from factlearn.facts import Fact
from factlearn.language import LanguageSpace
from factlearn.retrieval import FactIndex
from factlearn.retrieval.folder.optimize import PATTERNS
from factlearn.retrieval.rows import pack
from factlearn.retrieval.search import Question, nearest

DIMENSION = 300
UNITS = 500
WIDTH = 3 * DIMENSION + 3
CHUNK = 100_000
NOISE = 0.8
PEERS = ("factlearn exact", "factlearn optimized", "faiss flat", "milvus-lite", "lancedb", "usearch")
NEEDS = {"milvus-lite": "pymilvus", "lancedb": "lancedb", "usearch": "usearch"}
LIMIT = {"lancedb": 10**6, "usearch": 10**5, "milvus-lite": 10**5}  # beyond this a peer takes longer than this is worth


def word(unit: int, number: int) -> str:
    return "spo"[unit] + "".join("abcdefghij"[int(digit)] for digit in f"{number:03d}")


def language() -> LanguageSpace:
    generator = np.random.default_rng(0)
    words = [word(unit, number) for unit in range(3) for number in range(UNITS)]
    vectors = KeyedVectors(DIMENSION)
    vectors.add_vectors(words, generator.standard_normal((len(words), DIMENSION)).astype(np.float32))
    return LanguageSpace.of_vectors(vectors, normalise=True)


def facts() -> list[Fact]:
    return [Fact(word(0, n), word(1, (n * 7) % UNITS), word(2, (n * 13) % UNITS)) for n in range(UNITS)]


def chunks(count: int, space: LanguageSpace) -> Iterator[np.ndarray]:
    """Image vectors: units of a random fact each, weakened, with noise."""
    units = np.stack([[space.unit(word(unit, n)) for n in range(UNITS)] for unit in range(3)])
    generator = np.random.default_rng(1)
    for start in range(0, count, CHUNK):
        size = min(CHUNK, count - start)
        chosen = generator.integers(UNITS, size=(3, size))
        noise = generator.standard_normal((size, 3, DIMENSION), dtype=np.float32) * np.float32(NOISE / DIMENSION**0.5)
        yield np.stack([units[unit][chosen[unit]] for unit in range(3)], axis=1) * np.float32(0.6) + noise


def questions(count: int, space: LanguageSpace) -> list[Question]:
    generator = np.random.default_rng(2)
    asked = []
    for place in range(count):
        weights = np.array(PATTERNS[place % len(PATTERNS)])
        target = np.stack([space.unit(word(unit, int(generator.integers(UNITS)))) for unit in range(3)])
        asked.append(Question((target * (weights[:, None] > 0)).astype(np.float32), weights))
    return asked


# Each peer: build in a folder, then open there and give a function from a query row to the ten best ids.


def build_factlearn(folder: Path, count: int, space: LanguageSpace, *, optimized: bool) -> None:
    index, at = None, 0
    for vectors in chunks(count, space):
        ids = [f"{number:08d}" for number in range(at, at + len(vectors))]
        about = {"paths": ids, "model": "m", "known_facts": facts()}
        if index is None:
            index = FactIndex.create(folder / "index", vectors, ids, language=space, **about)
        else:
            index.add(vectors, ids, **about)
        at += len(vectors)
    if optimized and index is not None:
        for trial in index.optimize(target_recall=0.95, memory=2 * 10**9):
            print(f"    {trial}", file=sys.stderr)


def open_factlearn(folder: Path) -> Callable[[Question], list[int]]:
    index = FactIndex.open(folder / "index")
    return lambda question: [int(name) for name in index.store.names(nearest(index.store, [question], 10)[0].keys)]


def all_rows(count: int, space: LanguageSpace) -> Iterator[np.ndarray]:
    return (pack(vectors) for vectors in chunks(count, space))


def build_faiss(folder: Path, count: int, space: LanguageSpace) -> None:
    import faiss

    flat = faiss.IndexFlatIP(WIDTH)
    for rows in all_rows(count, space):
        flat.add(rows)
    faiss.write_index(flat, str(folder / "flat.faiss"))


def open_faiss(folder: Path) -> Callable[[Question], list[int]]:
    import faiss

    flat = faiss.read_index(str(folder / "flat.faiss"))
    return lambda question: flat.search(question.row[None], 10)[1][0].tolist()


def build_milvus(folder: Path, count: int, space: LanguageSpace) -> None:
    from pymilvus import DataType, MilvusClient

    client = MilvusClient(str(folder / "m.db"))
    schema = client.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=WIDTH)
    index = client.prepare_index_params()
    index.add_index("vector", index_type="FLAT", metric_type="IP")
    client.create_collection("c", schema=schema, index_params=index)
    at = 0
    for rows in all_rows(count, space):
        for start in range(0, len(rows), 2000):
            part = rows[start : start + 2000]
            client.insert("c", [{"id": at + start + n, "vector": row.tolist()} for n, row in enumerate(part)])
        at += len(rows)
    client.close()


def open_milvus(folder: Path) -> Callable[[Question], list[int]]:
    from pymilvus import MilvusClient

    client = MilvusClient(str(folder / "m.db"))
    client.load_collection("c")
    return lambda question: [hit["id"] for hit in client.search("c", [question.row.tolist()], limit=10)[0]]


def build_lancedb(folder: Path, count: int, space: LanguageSpace) -> None:
    import lancedb
    import pyarrow as pa

    kind = pa.list_(pa.float32(), WIDTH)
    schema = pa.schema([("id", pa.int64()), ("vector", kind)])
    table, at = lancedb.connect(str(folder)).create_table("t", schema=schema), 0
    for rows in all_rows(count, space):
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel(), pa.float32()), WIDTH)
        table.add(pa.table({"id": np.arange(at, at + len(rows)), "vector": vectors}))
        at += len(rows)


def open_lancedb(folder: Path) -> Callable[[Question], list[int]]:
    import lancedb

    table = lancedb.connect(str(folder)).open_table("t")
    return lambda question: [
        hit["id"] for hit in table.search(question.row).distance_type("dot").select(["id"]).limit(10).to_list()
    ]


def build_usearch(folder: Path, count: int, space: LanguageSpace) -> None:
    from usearch.index import Index

    index, at = Index(ndim=WIDTH, metric="ip", dtype="f32"), 0
    for rows in all_rows(count, space):
        index.add(np.arange(at, at + len(rows)), rows)
        at += len(rows)
    index.save(str(folder / "i.usearch"))


def open_usearch(folder: Path) -> Callable[[Question], list[int]]:
    from usearch.index import Index

    index = Index.restore(str(folder / "i.usearch"), view=True)
    return lambda question: index.search(question.row, 10).keys.tolist()


BUILD: dict[str, Callable[..., None]] = {
    "factlearn exact": lambda *given: build_factlearn(*given, optimized=False),
    "factlearn optimized": lambda *given: build_factlearn(*given, optimized=True),
    "faiss flat": build_faiss,
    "milvus-lite": build_milvus,
    "lancedb": build_lancedb,
    "usearch": build_usearch,
}
OPEN: dict[str, Callable[[Path], Callable[[Question], list[int]]]] = {
    "factlearn exact": open_factlearn,
    "factlearn optimized": open_factlearn,
    "faiss flat": open_faiss,
    "milvus-lite": open_milvus,
    "lancedb": open_lancedb,
    "usearch": open_usearch,
}


def resident() -> float:
    """Megabytes of this process in memory, mapped files included."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def ask(peer: str, folder: Path, count: int) -> None:
    """Open, query and print what was measured as JSON; run in a fresh process."""
    space = language()
    asked = questions(count, space)
    gc.collect()
    before = resident()
    started = time.perf_counter()
    search = OPEN[peer](folder)
    answers = [search(asked[0])]
    opened = time.perf_counter() - started
    times = []
    for question in asked:
        started = time.perf_counter()
        answers.append(search(question))
        times.append(1000 * (time.perf_counter() - started))
    print(json.dumps({"open": opened, "times": times, "ids": answers[1:], "resident": resident() - before}))


def make(peer: str, folder: Path, count: int) -> None:
    """Build and print the time it took as JSON; run in a fresh process."""
    space = language()
    started = time.perf_counter()
    BUILD[peer](folder, count, space)
    print(json.dumps({"seconds": time.perf_counter() - started}))


def child(what: str, peer: str, folder: Path, number: int) -> dict[str, Any]:
    """What a fresh process printed last."""
    command = [sys.executable, __file__, what, peer, "--folder", str(folder), "--number", str(number)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{peer} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def exact_answers(folder: Path, asked: list[Question]) -> list[set[int]]:
    index = FactIndex.open(folder / "index")
    return [{int(name) for name in index.store.names(found.keys)} for found in nearest(index.store, asked, 10)]


def measure(count: int, peers: list[str], queries: int, console: Console) -> None:
    """One table: every peer at one size."""
    space = language()
    asked = questions(queries, space)
    full = np.array([bool(question.weights.all()) for question in asked])
    table = Table(title=f"{count:,} images of 3 x {DIMENSION}, {queries} queries")
    for column in ("", "build s", "open s", "p50 ms", "p99 ms", "recall full | open", "resident MB", "disk MB"):
        table.add_column(column, justify="left" if not column else "right")
    truth: list[set[int]] = []
    for peer in peers:
        if count > LIMIT.get(peer, count):
            table.add_row(peer, *["-"] * 7)
            continue
        with tempfile.TemporaryDirectory(prefix="factlearn-bench-") as place:
            folder = Path(place)
            built = child("--make", peer, folder, count)["seconds"]
            if not truth:
                truth = exact_answers(folder, asked)
            found = child("--ask", peer, folder, queries)
            disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
        recall = np.array([len(truth[n] & set(ids)) / 10 for n, ids in enumerate(found["ids"])])
        table.add_row(
            peer,
            f"{built:.1f}",
            f"{found['open']:.2f}",
            f"{np.percentile(found['times'], 50):.2f}",
            f"{np.percentile(found['times'], 99):.2f}",
            f"{recall[full].mean():.3f} | {recall[~full].mean():.3f}",
            f"{found['resident']:.0f}",
            f"{disk:.0f}",
        )
        console.print(f"{count:,} {peer}: done", style="dim")
    console.print(table)


def main() -> None:
    """Print a table a size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", nargs="+", type=int, default=[10_000, 100_000])
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--queries", type=int, default=105)
    parser.add_argument("--make", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--ask", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        return ask(options.ask, options.folder, options.number)
    if options.make:
        return make(options.make, options.folder, options.number)
    console = Console()
    present = [peer for peer in options.peers if peer not in NEEDS or importlib.util.find_spec(NEEDS[peer])]
    for peer in set(options.peers) - set(present):
        console.print(f"{peer} is not installed (pip install {NEEDS[peer]}), so it is left out.")
    if present[0] != "factlearn exact":
        present.insert(0, "factlearn exact")  # whose answers the others are measured by
    for count in options.counts:
        measure(count, present, options.queries, console)


if __name__ == "__main__":
    main()
