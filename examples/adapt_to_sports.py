"""Learn one task, protect sports, learn the next task, and see how well sports are remembered.

Adapting adds the importance of sports to that of the whole task, so nothing is held less firmly than before. With
`only=True`, the paper's form, everything but sports is free to move, and may end up close to sports.
"""

import tempfile
from pathlib import Path

from factlearn import train
from factlearn.config import shipped
from factlearn.facts import read_patterns
from factlearn.learning.adaptation import adapt
from factlearn.learning.config import load_config
from factlearn.learning.protection import protection_of
from factlearn.learning.training import learn_more

SPORTS = shipped("sports.txt")
QUICK = ["data.vendors=[Goog, Twtr]", "tasks.count=2", "tasks.names=null", "training.epochs=6"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        first = train(load_config(shipped("demo.yaml"), QUICK), out=Path(folder, "first"), stop_after=1)
        adapted = adapt(first, read_patterns(SPORTS), Path(folder, "adapted"))
        protection = protection_of(learn_more(adapted))
        assert protection
        for fate in protection.fates:
            print(f"{fate.count} facts, {fate.group}:")
            for gallery, then, now in zip(protection.galleries, fate.before, fate.now, strict=True):
                print(f"  MAP {gallery}: {'-' if then is None else f'{then:.3f}'}, now {now or 0.0:.3f}")


if __name__ == "__main__":
    main()
