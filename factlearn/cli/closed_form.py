"""Commands for runs trained in closed form (ridge): forgetting on purpose, merging, and switching the readout."""

from pathlib import Path
from typing import Annotated

import typer

from factlearn.cli.common import RunArgument, show


def forget(
    run: RunArgument,
    facts: Annotated[
        Path | None, typer.Option(help="A text file of facts or patterns to forget, one per line.")
    ] = None,
    fact: Annotated[list[str] | None, typer.Option(help="A fact or pattern, such as '<dog>'; repeat for more.")] = None,
    class_: Annotated[list[str] | None, typer.Option("--class", help="A class to forget; repeat for more.")] = None,
    image: Annotated[
        list[Path] | None,
        typer.Option(help="A photo to forget; its facts stay known from other photos; repeat for more."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run to create.")] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Replace the run instead of creating a new one.")
    ] = False,
    drop: Annotated[
        bool, typer.Option("--drop", help="If photos are gone: drop the facts, but leave the photos in the sums.")
    ] = False,
) -> None:
    """Forget facts, classes or photos on purpose, exactly as if never seen; for runs trained with ridge.

    The photos are needed once more, to subtract their contribution. The new run has a single stage.
    """
    from factlearn.errors import RunError
    from factlearn.facts import read_patterns
    from factlearn.learning.runs import Run

    opened = Run.open(run)
    if not (facts or fact or class_ or image):
        raise RunError("Say what to forget: --fact, --facts FILE, --class or --image.")
    kind = opened.config.learn
    if ((facts or fact) and kind != "facts") or (class_ and kind != "classes"):
        raise RunError(f"{run} learned {kind}; name them with {'--fact' if kind == 'facts' else '--class'}.")
    if (out is None) != in_place:
        raise RunError("Say where the result goes: either --out NEW, or --in-place.")
    from factlearn.cli.tables.results import matrix_table
    from factlearn.learning.forgetting import forget as forget_in

    names = [*(read_patterns(facts) if facts else ()), *(fact or ()), *(class_ or ())]
    show(matrix_table(forget_in(opened, names, image or (), out=out, drop=drop).result()))


def merge(
    run: RunArgument,
    other: Annotated[Path, typer.Argument(metavar="RUN2", help="A run with the same features.")],
    out: Annotated[Path, typer.Option(help="The run to create.")],
) -> None:
    """Merge two runs trained with ridge, as if one run had seen the photos of both."""
    from factlearn.learning.runs import Run

    first, second = Run.open(run), Run.open(other)
    from factlearn.cli.tables.results import matrix_table
    from factlearn.learning.merging import merge as merge_runs

    show(matrix_table(merge_runs(first, second, out).result()))


def readout(
    run: RunArgument,
    readout: Annotated[str, typer.Argument(metavar="distance|posterior", help="The new readout.")],
    out: Annotated[Path, typer.Option(help="The run to create.")],
) -> None:
    """Switch a run to the other readout without training it again; for runs trained with ridge."""
    from factlearn.learning.runs import Run

    opened = Run.open(run)
    from factlearn.cli.tables.results import matrix_table
    from factlearn.learning.readouts import read_out

    show(matrix_table(read_out(opened, readout, out).result()))


def add_commands(app: typer.Typer) -> None:
    """Make these commands of the command line."""
    app.command()(forget)
    app.command()(merge)
    app.command()(readout)
