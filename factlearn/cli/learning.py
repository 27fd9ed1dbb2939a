"""Commands that learn and look at what was learned."""

from pathlib import Path
from typing import Annotated

import typer

from factlearn.cli.common import JsonOption, RunArgument, RunsArgument, SetOption, lines_of, show, show_json


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
    from factlearn.cli.tables.results import matrix_table
    from factlearn.learning.results import load_result
    from factlearn.learning.training import train as learn

    run = learn(loaded, folder, resume=resume, stop_after=tasks)
    show(matrix_table(load_result(run)))


def evaluate(
    run: RunArgument,
    json: JsonOption = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Embed the test images again instead of using the kept vectors.")
    ] = False,
) -> None:
    """MAP after each task, forgetting, and image to fact accuracy of a run."""
    from factlearn.learning.runs import Run

    opened = Run.open(run)
    from factlearn.cli.tables.results import matrix_table, metrics_table
    from factlearn.learning.results import load_result

    result = load_result(opened, fresh=fresh)
    if json:
        show_json(result.to_json())
    else:
        show(matrix_table(result), metrics_table(result))


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
    from factlearn.learning.runs import Run

    opened = Run.open(run)
    if (facts is not None) + (images is not None) + used != 1:
        raise RunError("Say what must not be forgotten with one of --facts FILE, --images DIR and --used.")
    from factlearn.learning.adaptation import adapt as adapt_run

    source = lines_of(facts) if facts else images.expanduser().resolve() if images else None
    adapt_run(opened, source, out)
    print(f"{out}: adapted; go on with: factlearn learn {out}")


def learn(
    run: RunArgument,
    task: Annotated[
        list[str] | None, typer.Option(help="A task by name; again for more; all that are left if not given.")
    ] = None,
) -> None:
    """Learn the next tasks of a run."""
    from factlearn.learning.runs import Run

    opened = Run.open(run)
    from factlearn.cli.tables.results import matrix_table
    from factlearn.learning.adaptation import learn_more
    from factlearn.learning.results import load_result

    show(matrix_table(load_result(learn_more(opened, task or ()))))


def importance(
    run: RunArgument,
    compare: Annotated[Path | None, typer.Option(help="Another run of the same network.")] = None,
    stage: Annotated[int | None, typer.Option(help="After which stage; the last if not given.")] = None,
    layer: Annotated[str | None, typer.Option(help="One parameter, such as shared.0.weight; all if not given.")] = None,
    out: Annotated[Path, typer.Option(help="The picture to write: .png, .svg or .pdf.")] = Path("importance.png"),
) -> None:
    """Histogram of the importance of parameters, or how two runs' importances agree."""
    from factlearn.learning.runs import Run

    opened, other = Run.open(run), Run.open(compare) if compare else None
    from factlearn.cli.tables.results import agreement_table, importance_table
    from factlearn.experiments import importance_plots as plots

    omega = plots.load_omega(opened, stage)
    values = plots.choose_layer(omega, layer)
    if other is None:
        plots.plot_histogram(values, out, f"{run}, {layer or 'all parameters'}")
        show(importance_table(omega))
    else:
        second = plots.choose_layer(plots.load_omega(other, stage), layer)
        agreed = plots.agreement(values, second)
        plots.plot_scatter(values, second, out, (str(run), str(compare)))
        show(agreement_table(agreed))
    print(out)


def memory(
    runs: RunsArgument,
    json: JsonOption = False,
) -> None:
    """Bytes that each run's method needed while learning and between tasks, measured."""
    from factlearn.classification.runs import open_any
    from factlearn.cli.tables.results import memory_rows, memory_table

    opened = [open_any(run) for run in runs]
    if json:
        show_json(memory_rows(opened))
    else:
        show(memory_table(opened))


def split(
    config: Annotated[Path, typer.Argument(help="A YAML file that names the data, the language and the tasks.")],
    out: Annotated[Path | None, typer.Option(help="Save the tasks as JSON.")] = None,
    set_: SetOption = None,
    dendrogram: Annotated[Path | None, typer.Option(help="Draw the tree of facts as PNG, SVG or PDF.")] = None,
    json: JsonOption = False,
) -> None:
    """Split the facts of a dataset into tasks and show them."""
    from factlearn.cli.tables.results import tasks_table
    from factlearn.config import load_config
    from factlearn.data.tasks import plot_dendrogram
    from factlearn.learning.assembly import fact_embeddings, make_tasks, open_dataset, open_language

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
        show_json(tasks.to_json())
    else:
        show(tasks_table(tasks, dataset))


def demo(
    out: Annotated[Path, typer.Option(help="Where the runs and the report go.")] = Path("runs/demo"),
    index: Annotated[Path, typer.Option(help="Where the indexes go.")] = Path("indexes/demo"),
) -> None:
    """Learn four tasks of emoji facts three ways, show what is forgotten, and search the images."""
    from factlearn.experiments.demo import run_demo

    run_demo(out, index)


def add_commands(app: typer.Typer) -> None:
    """Make these commands of the command line."""
    for command in (train, evaluate, adapt, learn, importance, memory, split, demo):
        app.command()(command)
