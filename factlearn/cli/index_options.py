"""Arguments and options that the commands about indexes share."""

from pathlib import Path
from typing import Annotated

import typer

IndexArgument = Annotated[
    str, typer.Argument(metavar="INDEX", help="An index, such as indexes/demo, or milvus://host:port/collection.")
]
RunOption = Annotated[
    Path | None,
    typer.Option("--run", help="The run whose model embeds images; by default the one that built the index."),
]
StageOption = Annotated[
    int | None, typer.Option(help="Use the model after this stage (a number from 1); the last by default.")
]
SkipOption = Annotated[bool, typer.Option("--skip-unreadable", help="Skip images that cannot be decoded.")]
ProcessesOption = Annotated[int, typer.Option(min=1, help="Number of worker processes.")]
RayOption = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Embed on a Ray cluster: its address, `auto` for this machine's cluster, or `local` to start Ray here.",
    ),
]
EachOption = Annotated[int, typer.Option("--sample", min=1, help="Number of images to sample per fact.")]


def open_run(path: Path | None):  # type: ignore[no-untyped-def]
    """The run that `--run` names, if any."""
    from factlearn.learning.runs import Run

    return None if path is None else Run.of_facts(path)
