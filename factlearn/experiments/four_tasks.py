"""Methods compared on sequences of tasks, over several random splits (the paper's Table 4).

    python -m factlearn.experiments.four_tasks configs/demo.yaml --tasks random --seeds 3

A seed draws the split, the initial weights and the order of images. Finished runs are used again, interrupted ones go
on, so a sweep can be stopped and called again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table

from factlearn.config import RunConfig, load_config, parse_config
from factlearn.facts import Relevance
from factlearn.progress import say
from factlearn.results import RunResult, load_result
from factlearn.training import train_or_reuse

# Lambda: the best MAP at the end on the emoji facts, random tasks, seed 100, which no table reports. SI: of 0.1, 1, 10,
# 30, 100, 300, 1000 (0.502 at 10, 0.589 at 300); MAS: of 3, 6, 10, 20, 60, 200 (0.567 at 6); l-MAS: 1, 10, 100 (0.520).
METHODS: dict[str, dict[str, Any]] = {
    "finetune": {"name": "finetune"},
    "si": {"name": "si", "lambda": 300.0},
    "l-mas": {"name": "l-mas", "lambda": 10.0},
    "mas": {"name": "mas", "lambda": 6.0},
    "joint": {"name": "joint"},
}


@dataclass(frozen=True)
class Cell:
    """One method on one split."""

    method: str
    seed: int
    result: RunResult

    @property
    def map_all(self) -> float:
        """MAP over all test images at the end, exact relevance."""
        return self.result.final.map_all or 0.0

    @property
    def forgetting(self) -> float | None:
        """Average forgetting, where tasks were learned one after the other."""
        lost = self.result.forgetting(Relevance.EXACT)
        return lost.average if lost else None


def sweep(config: RunConfig, methods: Sequence[str], seeds: Sequence[int], out: Path) -> list[Cell]:
    """Learn every method on every seed's split."""
    cells = []
    for seed in seeds:
        for method in methods:
            raw = {**yaml.safe_load(config.to_yaml()), "seed": seed, "strategy": METHODS[method]}
            say(f"seed {seed}, {method}")
            run = train_or_reuse(parse_config(raw, method), out / f"{method}-{seed}")
            cells.append(Cell(method, seed, load_result(run)))
    return cells


def sweep_table(cells: Sequence[Cell], title: str) -> Table:
    """A row a method: MAP over all test images, the share of the gap to Joint it closes, forgetting."""
    by_method: dict[str, list[Cell]] = {}
    for cell in cells:
        by_method.setdefault(cell.method, []).append(cell)
    maps = {method: [cell.map_all for cell in group] for method, group in by_method.items()}
    table = Table(title=title)
    for column in ("method", "MAP, all", "each split", "gap closed", "average forgetting"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method, group in by_method.items():
        lost = [cell.forgetting for cell in group if cell.forgetting is not None]
        each = " ".join(f"{value:.3f}" for value in maps[method])
        table.add_row(method, spread(maps[method]), each, _gap(maps, method), spread(lost))
    return table


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation."""
    if not values:
        return "-"
    return f"{mean(values):.3f} ± {stdev(values):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def _gap(maps: dict[str, list[float]], method: str) -> str:
    if not {"finetune", "joint"} <= maps.keys():
        return "-"
    low, high = mean(maps["finetune"]), mean(maps["joint"])
    return f"{(mean(maps[method]) - low) / (high - low):.0%}"


def main(
    config: Annotated[Path, typer.Argument(help="A config that names data, language and network.")],
    tasks: Annotated[str, typer.Option(help="random or agglomerative.")] = "random",
    methods: Annotated[str, typer.Option(help="Comma-separated.")] = ",".join(METHODS),
    seeds: Annotated[int, typer.Option(min=1)] = 3,
    first_seed: Annotated[int, typer.Option(min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Where the runs go.")] = Path("runs/four-tasks"),
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE")] = None,
) -> None:
    """Compare methods on a sequence of four tasks."""
    overrides = [*(set_ or ()), f"tasks.method={tasks}", "tasks.names=null"]
    loaded = load_config(config, overrides)
    place = out / f"{config.stem}-{tasks}"
    cells = sweep(loaded, methods.split(","), range(first_seed, first_seed + seeds), place)
    Console().print(sweep_table(cells, f"{config.stem}: {loaded.tasks.count} {tasks} tasks, exact relevance"))


if __name__ == "__main__":
    typer.run(main)
