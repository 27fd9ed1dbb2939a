"""The paper's object recognition experiments (section 5.1), on any config of `configs/classify/`.

    python -m factlearn.experiments.classification methods configs/classify/emoji8.yaml      Table 6, Figures 5 and 6
    python -m factlearn.experiments.classification tune configs/classify/emoji8.yaml         where its lambdas come from
    python -m factlearn.experiments.classification pairs configs/classify/pairs.yaml         Tables 1 and 2, l2/vector
    python -m factlearn.experiments.classification lambdas configs/classify/permuted.yaml    Figure 8
    python -m factlearn.experiments.classification one-class configs/classify/one_class.yaml the adaptation test

Add `--set scale=small` where the config is the paper's own. What was learned once is kept as JSON under --out and not
learned again; the runs themselves are removed unless --keep-runs.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from factlearn.classification.config import ClassifyConfig, load_classify_config
from factlearn.experiments import classification_tables as tables
from factlearn.experiments.classification_cells import Cell, Sweep

METHODS = ("finetune", "joint", "mas", "l-mas", "ewc", "si", "lwf", "ebll", "imm-mean", "imm-mode")
TUNING_SEED = 100
TUNING_VENDORS = "[Appl, FB, Goog, Twtr]"
"""All of the training side: three are learned from, the last is the test; the reported test vendors take no part."""
GRID = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
PAIRS = ("train", "test", "both")

app = typer.Typer(help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False)
ConfigArgument = Annotated[Path, typer.Argument(help="A YAML file of configs/classify/.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE")]
SeedsOption = Annotated[int, typer.Option(min=1, help="Seeds 0, 1, ... to average over.")]
OutOption = Annotated[Path, typer.Option(help="Where results are kept.")]
KeepOption = Annotated[bool, typer.Option("--keep-runs", help="Keep the run directories.")]
MethodsOption = Annotated[str, typer.Option(help="Comma-separated.")]
_OUT = Path("runs/classify-experiments")


def _console() -> Console:
    """Wide enough for a table where the output is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else 160)


def _loader(config: Path, overrides: Sequence[str]) -> Callable[..., ClassifyConfig]:
    return lambda *more: load_classify_config(config, [*overrides, *more])


@app.command()
def methods(
    config: ConfigArgument,
    names: MethodsOption = ",".join(METHODS),
    seeds: SeedsOption = 3,
    set_: SetOption = None,
    out: OutOption = _OUT,
    keep_runs: KeepOption = False,
) -> None:
    """Every method on the whole sequence: accuracy, forgetting, transfer, memory and time."""
    load = _loader(config, set_ or ())
    sweep = Sweep(out / config.stem, keep_runs)
    cells = {
        name: [sweep.cell(load(f"strategy.name={name}", f"seed={seed}")) for seed in range(seeds)]
        for name in names.split(",")
    }
    console = _console()
    console.print(tables.methods_table(cells), tables.tasks_table(cells), tables.memory_table(cells), sep="\n")
    for picture in tables.plot_tasks(cells, out / config.stem), tables.plot_memory(cells, out / config.stem):
        console.print(picture)


@app.command()
def tune(
    config: ConfigArgument,
    names: MethodsOption = ",".join(METHODS[2:]),
    grid: Annotated[str, typer.Option(help="Comma-separated lambdas.")] = ",".join(f"{value:g}" for value in GRID),
    set_: SetOption = None,
    out: OutOption = _OUT,
) -> None:
    """Each method's lambda, chosen on a seed, and for emoji-8 on test vendors, that no table reports.

    It is the largest whose average accuracy lies within a point of the best, see `tuning_line`.
    """
    load = _loader(config, set_ or ())
    sweep = Sweep(out / f"{config.stem}-tune", keep_runs=False)
    vendors = [f"data.vendors={TUNING_VENDORS}"] if load().data.source == "emoji8" else []
    for name in names.split(","):
        cells = {
            float(value): sweep.cell(
                load(f"strategy.name={name}", f"strategy.lambda={value}", f"seed={TUNING_SEED}", *vendors)
            )
            for value in grid.split(",")
        }
        _console().print(tables.tuning_line(name, cells), highlight=False)


@app.command()
def pairs(
    config: ConfigArgument,
    sequences: Annotated[str, typer.Option(help="Pairs of tasks, such as birds:scenes,scenes:birds.")] = "",
    names: MethodsOption = ",".join(name for name in METHODS if name != "joint"),
    seeds: SeedsOption = 1,
    importance: Annotated[bool, typer.Option("--importance", help="Table 2: train, test and both.")] = False,
    vector: Annotated[bool, typer.Option("--vector", help="l2 norm against vector output.")] = False,
    set_: SetOption = None,
    out: OutOption = _OUT,
) -> None:
    """Sequences of two tasks: accuracy of the first with its drop, and of the second."""
    load = _loader(config, set_ or ())
    sweep = Sweep(out / config.stem, keep_runs=False)
    given = sequences.split(",") if sequences else tables.default_pairs(load())
    rows: dict[str, list[str]] = {name: [f"strategy.name={name}"] for name in names.split(",")}
    if vector:
        rows = {name: [f"strategy.name={name}"] for name in ("mas", "mas-vector")}
    elif importance:
        rows = {
            f"{name}, {source}": [f"strategy.name={name}", f"strategy.importance={source}"]
            for name in ("mas", "l-mas")
            for source in PAIRS
        }
    cells = {
        label: {
            pair: [
                sweep.cell(load(f"data.tasks=[{pair.replace(':', ', ')}]", f"seed={s}", *sets)) for s in range(seeds)
            ]
            for pair in given
        }
        for label, sets in rows.items()
    }
    _console().print(tables.pairs_table(cells))


@app.command()
def lambdas(
    config: ConfigArgument,
    method: Annotated[str, typer.Option(help="Whose lambda.")] = "mas",
    grid: Annotated[str, typer.Option(help="Comma-separated lambdas.")] = "0.01,0.03,0.1,0.3,1,3,10,30,100",
    seeds: SeedsOption = 3,
    set_: SetOption = None,
    out: OutOption = _OUT,
    picture: Annotated[Path | None, typer.Option(help="The plot: .png, .svg or .pdf.")] = None,
) -> None:
    """Average accuracy and average forgetting against lambda, Figure 8."""
    load = _loader(config, set_ or ())
    sweep = Sweep(out / config.stem, keep_runs=False)
    cells = {
        float(value): [
            sweep.cell(load(f"strategy.name={method}", f"strategy.lambda={value}", f"seed={seed}"))
            for seed in range(seeds)
        ]
        for value in grid.split(",")
    }
    _console().print(tables.lambda_table(cells, method))
    print(tables.plot_lambdas(cells, method, picture or out / f"{config.stem}-lambda.svg"))


@app.command("one-class")
def one_class(
    config: ConfigArgument,
    classes: Annotated[str, typer.Option(help="Classes of the first task, comma-separated.")] = "",
    seeds: SeedsOption = 3,
    set_: SetOption = None,
    out: OutOption = _OUT,
) -> None:
    """Importance from the images of one class alone, against plain MAS: what is kept, and what later tasks gain."""
    load = _loader(config, set_ or ())
    sweep = Sweep(out / config.stem, keep_runs=False)
    chosen = [name.strip() for name in classes.split(",")] if classes else list(tables.default_classes(load()))
    everything = ("strategy.name=mas", "strategy.importance=train")
    plain = [sweep.cell(load(*everything, f"seed={seed}"), chosen) for seed in range(seeds)]
    adapted: Mapping[str, Iterable[Cell]] = {
        name: [
            sweep.cell(load("strategy.name=mas", f'strategy.importance=["{name}"]', f"seed={seed}"), chosen)
            for seed in range(seeds)
        ]
        for name in chosen
    }
    _console().print(tables.one_class_table(plain, {name: list(each) for name, each in adapted.items()}))


if __name__ == "__main__":
    app()
