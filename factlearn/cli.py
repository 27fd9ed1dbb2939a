"""The command line: parses, calls, prints. What takes long to import is imported by the command that needs it."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from factlearn import __version__
from factlearn.errors import FactlearnError

app = typer.Typer(
    help="Learn facts from images, task after task, without forgetting, and search them by triplet text.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
assets_app = typer.Typer(
    help="Named weights, word vectors and pictures: what there is, fetch it, find it.", no_args_is_help=True
)
index_app = typer.Typer(help="Build an index of images that `factlearn query` searches.", no_args_is_help=True)
app.add_typer(assets_app, name="assets")
app.add_typer(index_app, name="index")

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, such as runs/demo/mas.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the config, such as training.epochs=3."),
]

_INTERRUPTED = 130


def _version(asked: bool) -> None:
    if asked:
        print(f"factlearn {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def train(
    config: Annotated[Path, typer.Argument(help="A YAML file, such as configs/emoji.yaml.")],
    out: Annotated[
        Path | None, typer.Option(help="Run directory to make; runs/NAME of the config if not given.")
    ] = None,
    set_: SetOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="Stop after this many tasks; `factlearn learn` goes on.")
    ] = None,
) -> None:
    """Learn a sequence of tasks and leave a run directory."""
    from factlearn.config import load_config

    loaded = load_config(config, set_ or ())
    folder = out or Path("runs") / config.stem
    from factlearn.results import load_result
    from factlearn.tables import matrix_table
    from factlearn.training import train as learn

    run = learn(loaded, folder, resume=resume, stop_after=tasks)
    _print(matrix_table(load_result(run)))


@app.command()
def evaluate(
    run: RunArgument,
    json: JsonOption = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Embed the test images again instead of using the kept vectors.")
    ] = False,
) -> None:
    """MAP after each task, forgetting, and image to fact accuracy of a run."""
    from factlearn.runs import Run

    opened = Run.open(run)
    from factlearn.results import load_result
    from factlearn.tables import matrix_table, metrics_table

    result = load_result(opened, fresh=fresh)
    if json:
        _print_json(result.to_json())
    else:
        _print(matrix_table(result), metrics_table(result))


@app.command()
def adapt(
    run: RunArgument,
    out: Annotated[Path, typer.Option(help="The adapted run to make.")],
    facts: Annotated[Path | None, typer.Option(help="A text file of facts or patterns to keep, one a line.")] = None,
    images: Annotated[Path | None, typer.Option(help="A folder of images that show what to keep; no labels.")] = None,
    used: Annotated[
        bool, typer.Option("--used", help="Keep what the model was used for (--learn-importance).")
    ] = False,
) -> None:
    """Measure importance anew on what must not be forgotten, and go on from there with `factlearn learn`."""
    from factlearn.errors import RunError
    from factlearn.runs import Run

    opened = Run.open(run)
    if (facts is not None) + (images is not None) + used != 1:
        raise RunError("Say what must not be forgotten with one of --facts FILE, --images DIR and --used.")
    from factlearn.adaptation import adapt as adapt_run

    source = _lines(facts) if facts else images.expanduser().resolve() if images else None
    adapt_run(opened, source, out)
    print(f"{out}: adapted; go on with: factlearn learn {out}")


@app.command()
def learn(
    run: RunArgument,
    task: Annotated[
        list[str] | None, typer.Option(help="A task by name; again for more; all that are left if not given.")
    ] = None,
) -> None:
    """Learn the next tasks of a run."""
    from factlearn.runs import Run

    opened = Run.open(run)
    from factlearn.adaptation import learn_more
    from factlearn.results import load_result
    from factlearn.tables import matrix_table

    _print(matrix_table(load_result(learn_more(opened, task or ()))))


@app.command()
def importance(
    run: RunArgument,
    compare: Annotated[Path | None, typer.Option(help="Another run of the same network.")] = None,
    stage: Annotated[int | None, typer.Option(help="After which stage; the last if not given.")] = None,
    layer: Annotated[str | None, typer.Option(help="One parameter, such as shared.0.weight; all if not given.")] = None,
    out: Annotated[Path, typer.Option(help="The picture to write: .png, .svg or .pdf.")] = Path("importance.png"),
) -> None:
    """Histogram of the importance of parameters, or how two runs' importances agree."""
    from factlearn.runs import Run

    opened, other = Run.open(run), Run.open(compare) if compare else None
    from factlearn.experiments import importance_plots as plots
    from factlearn.tables import agreement_table, importance_table

    omega = plots.load_omega(opened, stage)
    values = plots.choose_layer(omega, layer)
    if other is None:
        plots.plot_histogram(values, out, f"{run}, {layer or 'all parameters'}")
        _print(importance_table(omega))
    else:
        second = plots.choose_layer(plots.load_omega(other, stage), layer)
        agreed = plots.agreement(values, second)
        plots.plot_scatter(values, second, out, (str(run), str(compare)))
        _print(agreement_table(agreed))
    print(out)


@app.command()
def memory(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories.")],
    json: JsonOption = False,
) -> None:
    """Bytes that each run's method needed while learning and between tasks, measured."""
    from factlearn.runs import Run
    from factlearn.tables import memory_rows, memory_table

    opened = [Run.open(run) for run in runs]
    if json:
        _print_json(memory_rows(opened))
    else:
        _print(memory_table(opened))


@app.command()
def split(
    config: Annotated[Path, typer.Argument(help="A YAML file that names the data, the language and the tasks.")],
    out: Annotated[Path | None, typer.Option(help="Save the tasks as JSON.")] = None,
    set_: SetOption = None,
    dendrogram: Annotated[Path | None, typer.Option(help="Draw the tree of facts as PNG, SVG or PDF.")] = None,
    json: JsonOption = False,
) -> None:
    """Split the facts of a dataset into tasks and show them."""
    from factlearn.assembly import fact_embeddings, make_tasks, open_dataset, open_language
    from factlearn.config import load_config
    from factlearn.tables import tasks_table
    from factlearn.tasks import plot_dendrogram

    loaded = load_config(config, set_ or ())
    dataset = open_dataset(loaded.data)
    language = open_language(loaded.language, dataset)
    tasks = make_tasks(loaded.tasks, dataset, language, loaded.seed)
    if dendrogram:
        facts = [fact for task in tasks.tasks for fact in task.facts]
        plot_dendrogram(tasks, fact_embeddings(facts, language), dendrogram)
    if out:
        tasks.save(out)
    if json:
        _print_json(tasks.to_json())
    else:
        _print(tasks_table(tasks, dataset))


@app.command()
def query(
    index: Annotated[Path, typer.Argument(metavar="INDEX", help="An index, such as indexes/demo.")],
    fact: Annotated[str, typer.Argument(help='A fact with * for what is open, such as "<person, riding, *>".')],
    k: Annotated[int, typer.Option("-k", help="How many images.")] = 10,
    json: JsonOption = False,
    sheet: Annotated[Path | None, typer.Option(help="Write the images as one picture.")] = None,
) -> None:
    """Find the images that show a fact."""
    from factlearn.retrieval import FactIndex
    from factlearn.tables import hits_table

    opened = FactIndex.open(index)
    asked = opened.parse(fact)
    hits = opened.query(asked, k=k)
    if sheet:
        from factlearn.retrieval.sheet import contact_sheet

        contact_sheet(hits, sheet, query=asked)
    if json:
        _print_json({"query": str(asked), "hits": [hit.to_json() for hit in hits]})
    else:
        _print(hits_table(asked, hits))


@index_app.command("build")
def index_build(
    run: RunArgument,
    out: Annotated[Path, typer.Option(help="The index to make, such as indexes/photos.")],
    images: Annotated[
        str, typer.Option(help="A folder, a manifest, or the run's own images: test, train or all.")
    ] = "test",
    stage: Annotated[
        int | None, typer.Option(help="Use the model as it was after this stage; the last if not given.")
    ] = None,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out images that cannot be decoded.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an index already there.")] = False,
    learn_importance: Annotated[
        bool,
        typer.Option(
            "--learn-importance",
            help="Remember in the run what these images make important; see `factlearn adapt --used`.",
        ),
    ] = False,
) -> None:
    """Embed images with a run's model and index them."""
    from factlearn.runs import Run

    opened = Run.open(run)
    from factlearn.indexing import build_index

    index = build_index(opened, images, out, stage=stage, skip_unreadable=skip_unreadable, overwrite=overwrite)
    if learn_importance:
        from factlearn.adaptation import learn_from_use

        learned = learn_from_use(opened, index)
        print(f"{run}: importance of {learned.count:.0f} images in use")
    print(f'{out}: {len(index)} images; try: factlearn query {out} "<person, riding, *>"')


@assets_app.command("list")
def assets_list(json: JsonOption = False) -> None:
    """What can be fetched, and what is in the cache already."""
    from factlearn.assets import ASSETS
    from factlearn.tables import assets_json, assets_table

    if json:
        _print_json(assets_json(ASSETS.values()))
    else:
        _print(assets_table(ASSETS.values()))


@assets_app.command("fetch")
def assets_fetch(
    names: Annotated[list[str], typer.Argument(help="Assets by name; `factlearn assets list` shows them.")],
    path: Annotated[
        Path | None, typer.Option(help="Make the asset from a file of yours instead of downloading.")
    ] = None,
) -> None:
    """Download assets into the cache, check and convert them."""
    from factlearn.assets import fetch
    from factlearn.progress import say

    for name in names:
        print(fetch(name, path=path, progress=say))


@assets_app.command("path")
def assets_path(name: Annotated[str, typer.Argument(help="An asset that was fetched.")]) -> None:
    """Where an asset is on disk."""
    from factlearn.assets import cached_path
    from factlearn.errors import AssetError

    found = cached_path(name)
    if found is None:
        raise AssetError(f"{name} is not in the cache; fetch it with `factlearn assets fetch {name}`.")
    print(found)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the runs and the report go.")] = Path("runs/demo"),
    index: Annotated[Path, typer.Option(help="Where the indexes go.")] = Path("indexes/demo"),
) -> None:
    """Learn four tasks of emoji facts three ways, show what is forgotten, and search the images."""
    from factlearn.experiments.demo import run_demo

    run_demo(out, index)


def _lines(path: Path) -> list[str]:
    """The lines of a text file that are neither empty nor comments."""
    from factlearn.errors import FactError

    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise FactError(f"{path} is not a readable text file of facts ({error}).") from None
    kept = [line for line in lines if line and not line.startswith("#")]
    if not kept:
        raise FactError(f"{path} names no facts; write one a line, such as <person, *, tennis>.")
    return kept


def _print(*things: Any) -> None:
    from rich.console import Console

    Console().print(*things, sep="\n")


def _print_json(value: Any) -> None:
    import json

    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def main() -> None:
    """Run the command line; errors of the user's become one sentence and exit code 2."""
    # OpenMP threads that wait by spinning slow a machine that does anything else beside this to a crawl.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app()
    except FactlearnError as error:
        _stop(str(error), 2)
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:  # how Typer ends a command at Ctrl-C
            _stop("Interrupted. A training run goes on from its last checkpoint with --resume.", _INTERRUPTED)
        raise
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        _stop(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.", 2)


def _stop(sentence: str, code: int) -> None:
    print(f"factlearn: {sentence}", file=sys.stderr)
    sys.exit(code)
