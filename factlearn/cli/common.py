"""Options and printing that all commands share."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

_WIDE = 200

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, such as runs/demo/mas.")]
StageOption = Annotated[
    int | None, typer.Option(help="Use the model as it was after this stage; the last if not given.")
]
FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Look at the test images again instead of using the stored evaluation.")
]
RunsArgument = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the config, such as training.epochs=3."),
]


def show(*things: Any) -> None:
    """Print text and tables; in a file or a pipe, where nobody knows a width, tables are as wide as they need."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE
    console.print(*things, sep="\n")


def show_json(value: Any) -> None:
    """Print JSON for other programs."""
    import json

    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
