"""Options and printing that all commands share."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

_WIDE = 200

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, such as runs/demo/mas.")]
StageOption = Annotated[
    int | None, typer.Option(help="Use the model after this stage (a number from 1); the last by default.")
]
FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Embed the test images again instead of using the stored evaluation.")
]
RunsArgument = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override a config key, such as training.epochs=3; repeat for more."
    ),
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
