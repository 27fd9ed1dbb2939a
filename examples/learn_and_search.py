"""Teach three tasks of emoji facts, one after the other, and search the pictures by fact."""

import tempfile
from pathlib import Path

from factlearn import train
from factlearn.indexing.building import build_index
from factlearn.learning.config import load_config

CONFIG = Path(__file__).parents[1] / "configs" / "demo.yaml"
# Only two vendors, to be quick: Google's drawings for training, Twitter's for testing.
QUICK = ["data.vendors=[Goog, Twtr]", "tasks.count=3", "tasks.names=null", "training.epochs=4"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = train(load_config(CONFIG, QUICK), out=Path(folder, "run"))
        result = run.result()
        for learned, value in zip(result.learned, result.whole(), strict=True):
            print(f"after {learned[-1]}: MAP over all test pictures {value:.3f}")

        index = build_index(run, "test", Path(folder, "index"))
        for query in ("<*, riding, bike>", "<woman, *, *>"):
            print(query)
            for hit in index.query(query, k=3):
                print(f"  {hit.score:.3f}  {hit.fact}  {hit.id}")


if __name__ == "__main__":
    main()
