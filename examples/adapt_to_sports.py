"""Learn one task, say that sports must not be forgotten, learn the next one, and see what became of sports.

In this small setting adapting helps. It need not: with four tasks or more vendors sports ended lower than with the
importance of the whole task, since all else is then free to move. Compare before you rely on it.
"""

import tempfile
from pathlib import Path

from factlearn import train
from factlearn.config import shipped
from factlearn.facts import read_patterns
from factlearn.learning.adaptation import adapt
from factlearn.learning.config import load_config
from factlearn.learning.training import learn_more

SPORTS = shipped("sports.txt")
QUICK = ["data.vendors=[Goog, Twtr]", "tasks.count=2", "tasks.names=null", "training.epochs=6"]


def main() -> None:
    config = load_config(shipped("demo.yaml"), [*QUICK, f"evaluation.subsets.sports={SPORTS}"])
    with tempfile.TemporaryDirectory() as folder:
        first = train(config, out=Path(folder, "first"), stop_after=1)
        adapted = adapt(first, read_patterns(SPORTS), Path(folder, "adapted"))
        for name, run in (("importance of the whole task", first), ("importance of sports alone", adapted)):
            then, now = learn_more(run).result().course("sports")
            print(f"{name}: MAP on sports {then:.3f} after the first task, {now:.3f} after the second")


if __name__ == "__main__":
    main()
