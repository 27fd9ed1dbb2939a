"""Commands that learn and look at what was learned, for facts and classes alike."""

from pathlib import Path
from typing import Annotated, Any

import typer

from factlearn.cli.common import (
    FreshOption,
    JsonOption,
    RunArgument,
    RunsArgument,
    SetOption,
    StageOption,
    show,
    show_json,
)
from factlearn.cli.index_options import SkipOption
from factlearn.cli.processes import DevicesOption, NodesOption, started_here
from factlearn.cli.registries import naming

KeepOption = Annotated[
    int | None,
    typer.Option(min=1, help="Keep only the networks of the last N stages, to save disk space; all by default."),
]
ConfigArgument = Annotated[Path, typer.Argument(help="A YAML file, such as configs/demo.yaml.")]


def train(
    config: ConfigArgument,
    out: Annotated[Path | None, typer.Option(help="Run directory to create; default runs/CONFIG.")] = None,
    set_: SetOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="Stop after this many tasks; `factlearn learn` continues.")
    ] = None,
    devices: DevicesOption = None,
    nodes: NodesOption = None,
    keep: KeepOption = None,
    accept_changes: Annotated[
        bool,
        typer.Option(
            "--accept-changes", help="Resume although the config or code has changed; the change is recorded."
        ),
    ] = False,
) -> None:
    """Learn a sequence of tasks (facts or classes, depending on the config) and write a run directory.

    `--set strategy.name=NAME` selects a lifelong method, `data.source` the data, `model.backbone` the network;
    `factlearn list methods` (or sources, backbones) describes each.
    """
    from factlearn.learning.config import load_config

    loaded = load_config(config, set_ or ())
    if started_here(devices, nodes, "continue from the last checkpoint with --resume, on any number of devices"):
        return
    from factlearn import processes
    from factlearn.cli.tables.results import matrix_table
    from factlearn.learning.engine import together
    from factlearn.learning.training import train as learn

    place = out or Path("runs") / config.stem
    with together(loaded, devices, nodes):
        run = learn(loaded, place, resume=resume, stop_after=tasks, keep=keep, accept_changes=accept_changes)
        if processes.first():
            show(matrix_table(run.result()))


def evaluate(run: RunArgument, json: JsonOption = False, fresh: FreshOption = False) -> None:
    """Show a run's MAP or accuracy after each task, its forgetting and transfer."""
    from factlearn.learning.runs import Run

    opened = Run.open(run)
    from factlearn.cli.tables.results import result_tables
    from factlearn.learning.protection import protection_of

    result, protection = opened.result(fresh=fresh), protection_of(opened)
    if json:
        show_json({**result.to_json(), "protection": protection.to_json() if protection else None})
    else:
        show(*result_tables(result, protection))


def predict(
    run: RunArgument,
    images: Annotated[list[Path], typer.Argument(help="Image files, or folders of them.")],
    task: Annotated[
        str | None, typer.Option(help="Only consider this task's facts or classes; by default those of all tasks.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of guesses per image.")] = 1,
    stage: StageOption = None,
    skip_unreadable: SkipOption = False,
    json: JsonOption = False,
) -> None:
    """Predict the facts or classes in your images, most likely first; the answer may be none of these."""
    from factlearn.learning.runs import Run

    opened = Run.open(run)
    from factlearn.cli.tables.results import guesses_table

    guesses = opened.predict(images, task=task, top=top, stage=stage, skip_unreadable=skip_unreadable)
    if json:
        show_json([guess.to_json() for guess in guesses])
    else:
        show(guesses_table(guesses))


def adapt(
    run: RunArgument,
    out: Annotated[Path, typer.Option(help="The adapted run to create.")],
    facts: Annotated[
        Path | None, typer.Option(help="A text file of facts or patterns to protect, one per line.")
    ] = None,
    class_: Annotated[list[str] | None, typer.Option("--class", help="A class to protect; repeat for more.")] = None,
    images: Annotated[
        Path | None, typer.Option(help="A folder of unlabelled images that show what to protect.")
    ] = None,
    used: Annotated[
        bool, typer.Option("--used", help="Protect what the model was used for, as gathered by --learn-importance.")
    ] = False,
    weight: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Factor by which the protected importance is multiplied before it is added to the rest; default 1.",
        ),
    ] = None,
    only: Annotated[
        bool, typer.Option("--only", help="Protect nothing else: its importance replaces the rest's, as in the paper.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Protect chosen facts, classes or images from being forgotten; then continue with `factlearn learn`.

    Prints how well they are known now and how their importance agrees with that of everything learned so far, and
    warns where adapting is not expected to help. After `factlearn learn`, the same table shows before and after.
    """
    from factlearn.errors import RunError
    from factlearn.facts import read_patterns
    from factlearn.learning.runs import Run

    opened = Run.open(run)
    kind = opened.config.learn
    if (facts is not None) + bool(class_) + (images is not None) + used != 1:
        named = "--facts FILE" if kind == "facts" else "--class NAME"
        raise RunError(f"Say what must not be forgotten with one of {named}, --images FOLDER and --used.")
    if only and weight is not None:
        raise RunError(
            "--weight says how much is added to the rest's importance, which --only replaces; leave one out."
        )
    if (facts and kind != "facts") or (class_ and kind != "classes"):
        raise RunError(f"{run} learned {kind}; protect {kind} with {'--facts' if kind == 'facts' else '--class'}.")
    from factlearn.learning.adaptation import adapt as adapt_run

    source: Any = read_patterns(facts) if facts else images.expanduser().resolve() if images else class_
    adapted = adapt_run(opened, source, out, only=only, weight=weight)
    from factlearn.cli.tables.protection import outlook_text, protection_table
    from factlearn.learning.protection import protection_of
    from factlearn.learning.training import how_to_continue

    protection, outlook = protection_of(adapted), adapted.description()["adapted"].get("outlook")
    if json:
        show_json({"run": str(out), "outlook": outlook, "protection": protection.to_json() if protection else None})
        return
    if protection:
        show(protection_table(protection))
    if outlook:
        show(*outlook_text(outlook))
    print(f"{out}: adapted; continue with: {how_to_continue(adapted)}")


def learn(
    run: RunArgument,
    task: Annotated[
        list[str] | None, typer.Option(help="Name of a task to learn; repeat for more; by default all remaining tasks.")
    ] = None,
    tasks: Annotated[int | None, typer.Option(min=1, help="Learn at most this many tasks.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Add a task from new data: a manifest of facts, or a folder of class folders.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the added task; by default the name of --data.")] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs for the added task; by default as in the run's config.")
    ] = None,
    devices: DevicesOption = None,
    nodes: NodesOption = None,
) -> None:
    """Learn the remaining tasks of a run, or add a task from new data with --data, as often as you like.

    Photos of earlier tasks are no longer needed. After an interruption, the same command resumes.
    """
    from factlearn.errors import RunError
    from factlearn.learning.runs import Run

    opened = Run.open(run)
    if data is None and (name is not None or epochs is not None):
        raise RunError("--name and --epochs describe an added task; give its data with --data.")
    if data is not None and (task or tasks is not None):
        raise RunError("--task and --tasks choose among the run's own tasks; leave them out with --data.")
    if started_here(devices, nodes, "the same command continues from the last checkpoint, on any number of devices"):
        return
    from factlearn import processes
    from factlearn.cli.tables.protection import protection_table
    from factlearn.cli.tables.results import matrix_table
    from factlearn.learning.additions import learn_data
    from factlearn.learning.engine import together
    from factlearn.learning.protection import protection_of
    from factlearn.learning.training import learn_more

    with together(opened.config, devices, nodes):
        if data is not None:
            learned = learn_data(opened, data, name=name, epochs=epochs)
        else:
            learned = learn_more(opened, task or (), count=tasks)
        if processes.first():
            protection = protection_of(learned)
            show(matrix_table(learned.result()), *([protection_table(protection)] if protection else []))


def importance(
    run: RunArgument,
    compare: Annotated[Path | None, typer.Option(help="Another run of the same network.")] = None,
    stage: StageOption = None,
    layer: Annotated[str | None, typer.Option(help="One parameter, such as shared.0.weight; all by default.")] = None,
    out: Annotated[Path, typer.Option(help="The plot to write: .png, .svg or .pdf.")] = Path("importance.png"),
) -> None:
    """Plot a histogram of parameter importance, or compare the importance of two runs."""
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


def memory(runs: RunsArgument, json: JsonOption = False) -> None:
    """Show the measured memory of each run's method, in bytes, while learning and between tasks."""
    from factlearn.cli.tables.results import memory_rows, memory_table
    from factlearn.learning.runs import Run

    opened = [Run.open(run) for run in runs]
    if json:
        show_json(memory_rows(opened))
    else:
        show(memory_table(opened))


def split(
    config: ConfigArgument,
    out: Annotated[Path | None, typer.Option(help="Save the tasks as JSON.")] = None,
    set_: SetOption = None,
    dendrogram: Annotated[Path | None, typer.Option(help="Plot the facts' dendrogram to this PNG, SVG or PDF.")] = None,
    json: JsonOption = False,
) -> None:
    """Split the facts of a dataset into tasks and show them."""
    from factlearn.cli.tables.results import tasks_table
    from factlearn.data.registry import open_facts
    from factlearn.data.tasks import fact_embeddings, make_tasks
    from factlearn.errors import ConfigError
    from factlearn.learning.config import FactsConfig, load_config

    loaded = load_config(config, set_ or ())
    if not isinstance(loaded, FactsConfig):
        raise ConfigError(f"{config} learns classes, whose tasks its data source gives; split works on facts.")
    dataset = open_facts(loaded.data, loaded.seed)
    language = loaded.language.open(dataset.facts, dataset.aliases)
    tasks = make_tasks(loaded.tasks, dataset, language, loaded.seed)
    if dendrogram:
        from factlearn.experiments.dendrogram import plot_dendrogram

        facts = [fact for task in tasks.tasks for fact in task.facts]
        plot_dendrogram(tasks, fact_embeddings(facts, language), dendrogram)
    if out:
        tasks.save(out)
    if json:
        show_json(tasks.to_json())
    else:
        show(tasks_table(tasks, dataset))


def add_commands(app: typer.Typer) -> None:
    """Make these commands of the command line."""
    app.command(cls=naming("methods", "sources", "backbones"))(train)
    for command in (evaluate, predict, adapt, learn, importance, memory, split):
        app.command()(command)
