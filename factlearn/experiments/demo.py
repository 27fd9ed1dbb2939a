"""The demo: four tasks of emoji facts, learned three ways, compared, indexed and searched."""

from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from factlearn.assets import fetch as fetch_asset
from factlearn.assets import find_asset
from factlearn.cli.tables.results import hits_table, matrix_table, number
from factlearn.config import RunConfig, load_config, parse_config
from factlearn.experiments.course import courses_of
from factlearn.experiments.paper.request import config_file
from factlearn.experiments.per_fact import fact_changes_of, lost_by_all
from factlearn.experiments.plots import curves
from factlearn.experiments.report import write_report
from factlearn.facts import Relevance
from factlearn.files import atomic_write
from factlearn.indexing.building import build_index
from factlearn.learning.results import RunResult, load_result
from factlearn.learning.runs import Run
from factlearn.learning.training import train_or_reuse
from factlearn.progress import say
from factlearn.retrieval.index import FactIndex
from factlearn.retrieval.sheet import contact_sheet

TITLES = {"finetune": "FineTune", "mas": "MAS", "joint": "Joint"}
ASSETS = ("vgg16-imagenet-conv", "glove-6b-50d", "emoji-pictures")
QUERIES = ("<person, riding, bike>", "<*, riding, *>", "<woman, *, golf>")


def run_demo(out: Path, index: Path) -> None:
    """Learn, compare, index and search; what is there already is used again."""
    console = Console()
    _announce()
    for name in ASSETS:
        fetch_asset(name, progress=say)
    config = load_config(config_file("demo"))
    results: dict[str, RunResult] = {}
    for method, title in TITLES.items():
        say(f"{title}:")
        results[title] = load_result(train_or_reuse(_with_method(config, method), out / method))
        console.print(matrix_table(results[title]))
    console.print(_comparison(results))

    last = _indexes(results["MAS"].run, index)
    for place, text in enumerate(QUERIES, 1):
        query = last.parse(text)
        hits = last.query(query, k=10)
        console.print(hits_table(query, hits))
        contact_sheet(hits, out / f"query-{place}.png", query=query)
    with atomic_write(out / "forgetting.svg") as stream:
        stream.write(curves(courses_of(results), [None, results["MAS"].tasks.tasks[0].name]).svg)
    report = out / "report.html"
    changes = {title: fact_changes_of(result) for title, result in results.items() if title != "Joint"}
    asked = list(dict.fromkeys([*QUERIES, *lost_by_all(changes)]))  # also one that MAS forgets
    write_report(list(results.values()), report, queries=asked, title="Learning facts without forgetting")
    console.print(
        f"\nThe report: {report}\nThe queries' images: {out / 'query-1.png'} to {out / f'query-{len(QUERIES)}.png'}\n"
        f'Ask yourself: factlearn query {index} "<person, *, hand>" --sheet sheet.png',
        markup=False,
    )


def _announce() -> None:
    missing = [find_asset(name) for name in ASSETS if not find_asset(name).cached]
    if missing:
        sizes = ", ".join(f"{asset.name} ({asset.size / 1e6:.0f} MB)" for asset in missing)
        say(f"This downloads once into the cache: {sizes}.")
    say("It takes about 4 minutes on two cores the first time; a second call uses what is there.")


def _with_method(config: RunConfig, method: str) -> RunConfig:
    """The demo's config with another method in place of its own, MAS."""
    if method == config.strategy.name:
        return config
    return parse_config({**yaml.safe_load(config.to_yaml()), "strategy": {"name": method}}, "demo")


def _comparison(results: dict[str, RunResult]) -> Table:
    table = Table(title="At the end of the sequence (exact relevance)")
    for column in ("method", "MAP, all", "average forgetting", "image to fact, accuracy@1"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method, result in results.items():
        lost = result.forgetting(Relevance.EXACT)
        found = result.final.exact.image_to_fact
        table.add_row(
            method,
            number(result.final.map_all),
            number(lost.average if lost else None),
            number(found.accuracy_at["1"] if found else None),
        )
    return table


def _indexes(run: Run, index: Path) -> FactIndex:
    """An index of all pictures as the model saw them after each task; the last one is returned."""
    last = run.finished_stages()
    for stage in range(1, last + 1):
        path = index if stage == last else index.with_name(f"{index.name}-after-task-{stage}")
        made = build_index(run, "all", path, stage=stage, overwrite=True)
    return made
