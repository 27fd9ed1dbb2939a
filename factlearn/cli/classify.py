"""Commands for object recognition."""

from pathlib import Path
from typing import Annotated

import typer

from factlearn.cli.common import JsonOption, RunArgument, SetOption, show, show_json

app = typer.Typer(
    help="Learn to classify images, task after task, each task with classes of its own.", no_args_is_help=True
)


@app.command()
def train(
    config: Annotated[Path, typer.Argument(help="A YAML file, such as configs/classify/emoji8.yaml.")],
    out: Annotated[
        Path | None, typer.Option(help="Run directory to make; runs/classify/NAME-METHOD if not given.")
    ] = None,
    set_: SetOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
    tasks: Annotated[int | None, typer.Option(min=1, help="Stop after this many tasks; --resume goes on.")] = None,
) -> None:
    """Learn a sequence of tasks and leave a run directory."""
    from factlearn.classification.config import load_classify_config

    loaded = load_classify_config(config, set_ or ())
    folder = out or Path("runs/classify") / f"{config.stem}-{loaded.strategy.name}"
    from factlearn.classification.results import load_result
    from factlearn.classification.training import train as learn
    from factlearn.cli.tables.classes import accuracy_table, summary_table

    result = load_result(learn(loaded, folder, resume=resume, stop_after=tasks))
    show(accuracy_table(result), summary_table(result))


@app.command()
def evaluate(
    run: RunArgument,
    json: JsonOption = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Look at the test images again instead of using the kept predictions.")
    ] = False,
) -> None:
    """Accuracy after each task, forgetting, backward and forward transfer of a run."""
    from factlearn.classification.runs import ClassRun

    opened = ClassRun.open(run)
    from factlearn.classification.results import load_result
    from factlearn.cli.tables.classes import accuracy_table, summary_table

    result = load_result(opened, fresh=fresh)
    if json:
        show_json(result.to_json())
    else:
        show(accuracy_table(result), summary_table(result))


@app.command()
def predict(
    run: RunArgument,
    images: Annotated[list[Path], typer.Argument(help="Image files, or folders of them.")],
    task: Annotated[
        str | None, typer.Option(help="The task the images belong to; any, the most confident, if not given.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many classes an image.")] = 1,
    stage: Annotated[int | None, typer.Option(help="Ask the network of this stage; the last if not given.")] = None,
    json: JsonOption = False,
) -> None:
    """Say what images of yours show."""
    from factlearn.classification.runs import ClassRun

    opened = ClassRun.open(run)
    from factlearn.classification.prediction import predict as predict_images
    from factlearn.cli.tables.classes import guesses_table

    guesses = predict_images(opened, images, task=task, top=top, stage=stage)
    if json:
        show_json([guess.to_json() for guess in guesses])
    else:
        show(guesses_table(guesses))


@app.command()
def adapt(
    run: RunArgument,
    out: Annotated[Path, typer.Option(help="The adapted run to make.")],
    class_: Annotated[
        list[str] | None, typer.Option("--class", help="A class that must not be forgotten; again for more.")
    ] = None,
    images: Annotated[Path | None, typer.Option(help="A folder of images that show what to keep; no labels.")] = None,
) -> None:
    """Measure importance anew on what must not be forgotten, and go on from there with `factlearn classify learn`."""
    from factlearn.classification.runs import ClassRun
    from factlearn.errors import RunError

    opened = ClassRun.open(run)
    if bool(class_) == (images is not None):
        raise RunError("Say what must not be forgotten with one of --class NAME and --images FOLDER.")
    from factlearn.classification.adaptation import adapt as adapt_run

    adapt_run(opened, images.expanduser().resolve() if images else class_ or (), out)
    print(f"{out}: adapted; go on with: factlearn classify learn {out}")


@app.command()
def learn(
    run: RunArgument,
    tasks: Annotated[int | None, typer.Option(min=1, help="How many more; all that are left if not given.")] = None,
) -> None:
    """Learn the next tasks of a run."""
    from factlearn.classification.runs import ClassRun

    opened = ClassRun.open(run)
    from factlearn.classification.adaptation import learn_more
    from factlearn.classification.results import load_result
    from factlearn.cli.tables.classes import accuracy_table, summary_table

    result = load_result(learn_more(opened, tasks))
    show(accuracy_table(result), summary_table(result))
