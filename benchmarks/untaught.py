"""Facts that were never taught: found by their units, and by distance.

    python benchmarks/untaught.py photos.csv [--config configs/photos_quick.yaml] [--wider FACT] [--choose]

In the first case, every fact of three units whose object is a fact of its own, such as `<person, playing, flute>` and
`<flute>`, is left out of training; in the second, those with subject and predicate of the wider fact, which is by
default `<person, playing, instrument>`, are taught as that one. Prints the mean average precision of queries for these
facts over the test photos, and the share of right ones among the first ten hits that could be right. With --choose, a
third of the training photos takes the place of the test photos: the constants of `composing.py` were chosen so.
"""

import argparse
import csv
import hashlib
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from factlearn.evaluation.ranking import average_precision
from factlearn.evaluation.scoring import masked_scores
from factlearn.facts import Fact
from factlearn.indexing.building import build_index
from factlearn.learning.config import load_config
from factlearn.learning.training import train
from factlearn.retrieval import FactIndex
from factlearn.retrieval.items import facts_of

COLUMNS = ("path", "split", "subject", "predicate", "object")


def read(manifest: Path, *, choose: bool) -> list[dict[str, str]]:
    """The photos of a manifest; to choose by, those for training alone, with a third of them for testing."""
    with open(manifest, newline="", encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if not choose or row["split"] == "train"]
    for row in rows:
        if choose and int(hashlib.sha256(("fold" + row["path"]).encode()).hexdigest(), 16) % 3 == 0:
            row["split"] = "test"
        row["path"] = str(manifest.parent.resolve() / row["path"])
    return rows


def fact_of(row: dict[str, str]) -> Fact:
    """What a row says its photo shows."""
    return Fact(*(row[name] for name in COLUMNS[2:] if row[name]))


def composed(rows: Iterable[dict[str, str]]) -> list[Fact]:
    """The facts whose object is a fact of its own."""
    facts = {fact_of(row) for row in rows}
    return sorted(fact for fact in facts if fact.object and fact.object != fact.subject and Fact(fact.object) in facts)


def written(rows: Iterable[dict[str, str]], path: Path) -> Path:
    """A manifest of these rows."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def judged(index: FactIndex, asked: list[Fact]) -> list[str]:
    """The figures of both ways to answer."""
    labels = [facts_of(item) for item in index.items()]
    places = {name: place for place, name in enumerate(index.ids)}
    found: dict[str, list[tuple[float, float]]] = {"by units": [], "by distance": []}
    for fact in asked:
        right = np.array([fact in shown for shown in labels], bool)
        by_units = np.zeros(len(labels))
        for rank, hit in enumerate(index.query(fact, len(labels))):
            by_units[places[hit.id]] = -rank
        distances = masked_scores(index.vectors, *index.language.embed([fact]))[0]
        for name, scores in (("by units", by_units), ("by distance", distances)):
            found[name].append((average_precision(scores, right, index.ids), _first_ten(scores, right)))
    means = {name: np.mean(figures, axis=0) for name, figures in found.items()}
    return [f"{name}: MAP {map_:.3f}, {share:.0%} of the first ten" for name, (map_, share) in means.items()]


def _first_ten(scores: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    first = np.argsort(-scores, kind="stable")[:10]
    return float(right[first].sum() / min(10, right.sum()))


def main() -> None:
    """Print the figures of both cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("manifest", type=Path, nargs="?", help="photos of your own")
    parser.add_argument("--config", default="configs/photos_quick.yaml")
    parser.add_argument("--wider", default="<person, playing, instrument>")
    parser.add_argument("--choose", action="store_true", help="judge on a third of the training photos")
    given = parser.parse_args()
    if given.manifest is None:
        print("Not measured: give a manifest of photos.")
        return
    if not given.manifest.is_file():
        parser.error(f"there is no manifest {given.manifest}")
    rows, wider = read(given.manifest, choose=given.choose), Fact.parse(given.wider)
    test = [row for row in rows if row["split"] == "test"]
    strange = composed(rows)
    narrower = [fact for fact in strange if fact.units[:2] == wider.units[:2]]
    renamed = dict(zip(COLUMNS[2:], wider.units, strict=True))
    cases = {
        "left out": (strange, [row for row in rows if fact_of(row) not in strange]),
        f"taught as {wider}": (narrower, [row | renamed if fact_of(row) in narrower else row for row in rows]),
    }
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        written(test, place / "test.csv")
        for number, (case, (asked, taught)) in enumerate(cases.items()):
            manifest = written(taught, place / f"{number}.csv")
            config = load_config(given.config, [f"data.manifest={manifest}", "strategy.name=ridge"])
            run = train(config, place / f"run-{number}")
            index = build_index(run, str(place / "test.csv"), place / f"index-{number}")
            print(f"{len(asked)} facts {case}: {'; '.join(judged(index, asked))}", flush=True)


if __name__ == "__main__":
    main()
