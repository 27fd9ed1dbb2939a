"""The demo: four tasks of emoji facts, learned four ways, compared, indexed and searched; the steps of `make demo`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from factlearn.assets import fetch as fetch_asset
from factlearn.assets import find_asset
from factlearn.config import shipped
from factlearn.evaluation.results import RunResult
from factlearn.experiments.changes import changes_of, lost_by_all
from factlearn.experiments.plots import curves
from factlearn.experiments.report import write_report
from factlearn.files import atomic_write
from factlearn.indexing.building import build_index
from factlearn.learning.config import load_config
from factlearn.learning.runs import Run
from factlearn.learning.training import train_or_reuse
from factlearn.lifelong.registry import METHODS
from factlearn.progress import say
from factlearn.retrieval import FactIndex

DEMO_METHODS = ("finetune", "mas", "ridge", "joint")
ASSETS = ("vgg16-imagenet-conv", "glove-6b-50d", "emoji-pictures")
QUERIES = ("<person, riding, bike>", "<*, riding, *>", "<woman, *, golf>")


def fetch_assets() -> None:
    """Download what is not in the cache yet, after saying how much that is."""
    missing = [find_asset(name) for name in ASSETS if not find_asset(name).cached]
    if missing:
        sizes = ", ".join(f"{asset.name} ({asset.size / 1e6:.0f} MB)" for asset in missing)
        say(f"This downloads once into the cache: {sizes}.")
    say("The demo takes about 4 minutes on two cores the first time; later calls reuse what is there.")
    for name in ASSETS:
        fetch_asset(name, progress=say)


def learn_methods(out: Path) -> Iterator[tuple[str, RunResult]]:
    """Each method's title and result, learned one after the other or used again."""
    for name in DEMO_METHODS:
        title = METHODS[name].title
        say(f"{title}:")
        config = load_config(shipped("demo.yaml"), [f"strategy.name={name}"])
        yield title, train_or_reuse(config, out / name).result()


def index_stages(run: Run, index: Path) -> FactIndex:
    """An index of all pictures as the model saw them after each task; the last one is returned."""
    last = run.finished_stages()
    for stage in range(1, last + 1):
        path = index if stage == last else index.with_name(f"{index.name}-after-task-{stage}")
        made = build_index(run, "all", path, stage=stage, overwrite=True)
    return made


def report(results: Mapping[str, RunResult], out: Path) -> Path:
    """Write the curves and the report, which also shows a fact that MAS forgets."""
    with atomic_write(out / "forgetting.svg") as stream:
        stream.write(curves(results, [None, results["MAS"].tasks[0]]).svg)
    changes = {title: changes_of(result) for title, result in results.items() if not result.at_once}
    asked: Sequence[str] = list(dict.fromkeys([*QUERIES, *lost_by_all(changes)]))
    path = out / "report.html"
    write_report(list(results.values()), path, queries=asked, title="Learning facts without forgetting")
    return path
