"""Embedding by workers beside one process: Ray on a simulated cluster of three nodes, one of which is killed.

    python benchmarks/workers.py [--images 20000] [--workers 2]

All build an index of the same small images with the demo's network: one process with all cores, `--processes`, `--ray
local`, and actors on three nodes of which one is killed once a quarter of the images is in the index. Every index must
hold every image once; the throughput of `--ray local` must reach 0.9 of that of one process.
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from factlearn.indexing.building import build_index
from factlearn.learning.config import load_config
from factlearn.learning.runs import Run
from factlearn.learning.training import train
from factlearn.retrieval import FactIndex

LIMIT = 0.9


def pictures(folder: Path, count: int) -> None:
    """Small JPEG files with some content, no two alike."""
    generator = np.random.default_rng(0)
    folder.mkdir()
    for number in range(count):
        small = generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(small).resize((96, 96), Image.Resampling.BICUBIC).save(folder / f"{number:06}.jpg")


def timed(run: Run, images: Path, out: Path, **options: Any) -> tuple[FactIndex, float]:
    """An index, and how many images per second it took to build."""
    started = time.monotonic()
    index = build_index(run, str(images), out, **options)
    return index, len(index) / (time.monotonic() - started)


def on_a_cluster_that_loses_a_node(run: Run, images: Path, out: Path, count: int) -> FactIndex:
    """Build on three nodes of one CPU each; one dies when a quarter of the images is there."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    node, _ = (cluster.add_node(num_cpus=1) for _ in range(2))

    def kill() -> None:
        while not (out / "index.json").is_file() or len(FactIndex.open(out)) < count // 4:
            time.sleep(0.2)
        cluster.remove_node(node, allow_graceful=False)
        print(f"a node was killed at {len(FactIndex.open(out))} images", flush=True)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        index = build_index(run, str(images), out, ray=cluster.address)
        assert not killer.is_alive(), "the index was ready before the node was killed"
        return index
    finally:
        cluster.shutdown()


def main(count: int, workers: int) -> None:
    """Print one line per way of building."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        config = load_config("configs/demo.yaml", ["strategy={name: ridge}"])
        run = train(config, base / "run", stop_after=1)
        pictures(base / "images", count)
        one, alone = timed(run, base / "images", base / "one")
        print(f"one process: {alone:.0f} images/s", flush=True)
        for name, options in (("--processes", {}), ("--ray local", {"ray": "local"})):
            index, rate = timed(run, base / "images", base / name.strip("-"), processes=workers, **options)
            assert index.ids == one.ids
            print(f"{name}, {workers} workers: {rate:.0f} images/s, {rate / alone:.2f} of one process", flush=True)
        shared = on_a_cluster_that_loses_a_node(run, base / "images", base / "cluster", count)
        assert shared.ids == one.ids
        largest = float(np.abs(np.asarray(shared.vectors) - np.asarray(one.vectors)).max())
        print(f"three nodes, one killed: {len(shared)} images, each once, in order; vectors differ by {largest:.1e}")
        assert rate >= LIMIT * alone, f"--ray local is slower than {LIMIT} of one process"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    main(given.images, given.workers)
