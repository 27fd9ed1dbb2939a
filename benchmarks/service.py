"""The service against plain `FactIndex.query_many`, in the same run: throughput, latency, and while the index changes.

    python benchmarks/service.py [--seconds 60] [--images 100000] [--clients 16]

The index holds random vectors of 3 x 50. The service runs as a user starts it; clients in this process keep connections
open and ask single queries one after the other; then again while another writer adds images and the service joins all
segments of the index (`optimize`) every few seconds. All load goes to 127.0.0.1 and ends after the given time.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import numpy as np
from gensim.models import KeyedVectors

from factlearn.client import Client
from factlearn.errors import IndexBusyError
from factlearn.facts import Fact
from factlearn.language import LanguageSpace
from factlearn.retrieval import FactIndex

WORDS = [f"word{number}" for number in range(60)]
BATCH = 32


def build(path: Path, images: int) -> FactIndex:
    """An index of random vectors around random facts."""
    rng = np.random.default_rng(0)
    vectors = KeyedVectors(50)
    vectors.add_vectors(WORDS, rng.normal(size=(len(WORDS), 50)).astype(np.float32))
    language = LanguageSpace.of_vectors(vectors, normalise=True)
    facts = sorted(
        {Fact(*(WORDS[20 * unit + place] for unit, place in enumerate(row))) for row in rng.integers(0, 20, (150, 3))}
    )
    targets, _ = language.embed(facts)
    shown = rng.integers(0, len(facts), images)
    rows = (targets[shown] + 0.3 * rng.normal(size=(images, 3, 50))).astype(np.float32)
    ids = [f"{number:07d}.png" for number in range(images)]
    return FactIndex.create(
        path, rows, ids, paths=[f"/pictures/{name}" for name in ids], language=language, model="m", known_facts=facts
    )


def texts(index: FactIndex) -> list[str]:
    """Queries with and without wildcards."""
    return [text for fact in index.facts for text in (str(fact), f"<*, {fact.predicate}, {fact.object}>")]


def in_process(index: FactIndex, seconds: float) -> tuple[float, float]:
    """Queries per second of `query_many`, and CPU milliseconds per query."""
    asked, done, started, used = texts(index), 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds:
        index.query_many([asked[(done + place) % len(asked)] for place in range(BATCH)], 10)
        done += BATCH
    return done / (time.perf_counter() - started), 1000 * (time.process_time() - used) / done


async def client(
    port: int, asked: list[str], number: int, until: float, seconds: list[float], errors: list[str]
) -> None:
    """One connection that asks until the time is over."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    turn = number * 7
    try:
        while time.perf_counter() < until:
            started = time.perf_counter()
            path = f"/api/v1/search?q={quote(asked[turn % len(asked)])}&k=10"
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            body = await reader.readexactly(int(length.partition(b":")[2]))
            seconds.append(time.perf_counter() - started)
            if not head.startswith(b"HTTP/1.1 200") or body.count(b'"score"') != 10:
                errors.append(head.split(b"\r\n")[0].decode())
            turn += 1
    except (OSError, asyncio.IncompleteReadError) as error:
        errors.append(repr(error))
    finally:
        writer.close()


def load(port: int, asked: list[str], clients: int, duration: float) -> tuple[list[float], list[str]]:
    """The latencies and errors of concurrent clients."""
    seconds: list[float] = []
    errors: list[str] = []

    async def everyone() -> None:
        until = time.perf_counter() + duration
        await asyncio.gather(*(client(port, asked, number, until, seconds, errors) for number in range(clients)))

    asyncio.run(everyone())
    return seconds, errors


class Adding(threading.Thread):
    """Adds images from another writer while the load goes on."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path, self.ids, self.ended = path, list[str](), threading.Event()

    def run(self) -> None:
        """Commit after commit; one that had to wait too long for the index is tried again."""
        index, rng = FactIndex.open(self.path), np.random.default_rng(1)
        while not self.ended.wait(0.5):
            names = [f"added/{len(self.ids) + place}" for place in range(20)]
            vectors = rng.normal(size=(20, 3, 50)).astype(np.float32)
            with suppress(IndexBusyError):
                index.add(vectors, names, paths=[f"/pictures/{name}" for name in names], model="m")
                self.ids += names


class Compacting(threading.Thread):
    """Has the service join all segments of the index, again and again, while the load goes on."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(daemon=True)
        self.url, self.token, self.times, self.ended = url, token, 0, threading.Event()

    def run(self) -> None:
        """Job after job."""
        with Client(self.url, token=self.token) as index:
            while not self.ended.wait(2):
                index.optimize(kinds=["flat"], per_pattern=2)
                self.times += 1


def cpu_seconds(process: int) -> float:
    """What a process has used so far: on a machine that does other things besides, fairer than time."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def line(name: str, seconds: list[float], errors: list[str], duration: float, plain: float) -> dict[str, object]:
    """The figures of one phase."""
    if errors:
        print(f"{len(errors)} errors, such as {errors[0]}", file=sys.stderr)
    p50, p99 = np.percentile(seconds, [50, 99]) * 1000
    rate = len(seconds) / duration
    return {
        "phase": name, "requests": len(seconds), "errors": len(errors), "per second": round(rate, 1),
        "of query_many": round(rate / plain, 3), "p50 ms": round(p50, 2), "p99 ms": round(p99, 2),
        "p99 / p50": round(p99 / p50, 2),
    }  # fmt: skip


def main() -> None:
    """Print one line per phase."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors"
        index = build(path, options.images)
        in_process(index, 1)
        code = "from factlearn.cli import main; main()"
        command = [sys.executable, "-c", code, "serve", str(path), "--port", "0", "--rate", "0", "--quiet"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
            try:
                assert service.stdout is not None
                url, _, token = service.stdout.readline().split()[3].partition("/#token=")
                port = int(url.rpartition(":")[2])
                asked = texts(index)
                load(port, asked, options.clients, 2)
                before, spent = in_process(index, options.seconds / 4)
                used = cpu_seconds(service.pid)
                still = load(port, asked, options.clients, options.seconds)
                used = 1000 * (cpu_seconds(service.pid) - used) / len(still[0])
                after, again = in_process(index, options.seconds / 4)
                plain = (before + after) / 2
                print(f"query_many in this process: {before:.1f} and {after:.1f} queries per second")
                print(f"CPU per query: query_many {spent:.2f} and {again:.2f} ms, service {used:.2f} ms")
                print(json.dumps(line("reading", *still, options.seconds, plain)))
                adding, compacting = Adding(path), Compacting(url, token)
                adding.start()
                compacting.start()
                moving = load(port, asked, options.clients, options.seconds)
                for thread in (adding, compacting):
                    thread.ended.set()
                    thread.join(60)
                print(json.dumps(line("while adding and compacting", *moving, options.seconds, plain)))
                print(f"{compacting.times} times all segments were joined")
                time.sleep(3)  # the last commit is taken into use within a second
                with Client(url, token=token, retries=0) as service_index:
                    found = [item["id"] for item in service_index.items("id like 'added/%'")]
                    problems = service_index.verify()
                twice, lost = len(found) - len(set(found)), set(adding.ids) - set(found)
                print(f"{len(adding.ids)} images added meanwhile: {len(lost)} lost, {twice} twice, {problems=}")
            finally:
                service.terminate()
                service.wait(60)


if __name__ == "__main__":
    main()
