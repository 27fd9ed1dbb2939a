"""Commands that list and prune run directories."""

from pathlib import Path
from typing import Annotated

import typer

from factlearn.cli.common import JsonOption, RunsArgument, show, show_json

app = typer.Typer(help="List runs with their sizes, and prune them.", no_args_is_help=True)


@app.command("list")
def list_(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Folder to search, with its subfolders.")] = Path(
        "runs"
    ),
    json: JsonOption = False,
) -> None:
    """List the runs in a folder with their sizes."""
    from factlearn.cli.tables.runs import runs_table
    from factlearn.learning.pruning import find_runs

    found = find_runs(folder)
    if json:
        show_json([each.to_json() for each in found])
    else:
        show(runs_table(found))


@app.command()
def prune(
    runs: RunsArgument,
    keep: Annotated[
        str, typer.Option(metavar="last|N", help="Keep the networks of the last stage, or of the last N stages.")
    ] = "last",
) -> None:
    """Delete the networks of earlier stages and old checkpoints; results and reports stay.

    The run can still be used, evaluated and taught more, but the networks of earlier stages are gone for good.
    """
    from factlearn.cli.tables.runs import megabytes
    from factlearn.errors import RunError
    from factlearn.learning.pruning import prune as prune_run
    from factlearn.learning.runs import Run

    if keep != "last" and not keep.isdecimal():
        raise RunError(f"--keep is 'last' or a number of stages, not {keep!r}.")
    for run in [Run.open(each) for each in runs]:
        freed = prune_run(run, 1 if keep == "last" else int(keep))
        print(f"{run.folder}: {megabytes(freed)} freed")
