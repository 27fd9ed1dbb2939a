"""Index pictures while the model keeps learning: old vectors stay valid, and are re-embedded where that helps."""

import tempfile
from pathlib import Path

from factlearn import FactIndex, train
from factlearn.config import shipped
from factlearn.indexing.building import add_images, build_index
from factlearn.indexing.refreshing import refresh
from factlearn.learning.config import load_config
from factlearn.learning.training import learn_more

QUICK = ["data.vendors=[Goog, Twtr]", "tasks.count=2", "tasks.names=null", "training.epochs=4"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "index")
        run = train(load_config(shipped("demo.yaml"), QUICK), out=Path(folder, "run"), stop_after=1)
        index = build_index(run, "test", place)
        print(f"{len(index)} pictures, embedded by the model of the first task")

        learn_more(run)
        added = add_images(index, "train", run)
        print(f"{len(added.new)} more, embedded by the model of the second task")
        done = refresh(place, run)
        print(f"refreshed: {done.embedded} re-embedded, {done.kept} kept")

        for hit in FactIndex.open(place).query("<*, playing, *>", k=3):
            print(f"  {hit.score:.3f}  {hit.fact}  {hit.id}")


if __name__ == "__main__":
    main()
