"""Options and printing that all commands share."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

_WIDE = 200

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, such as runs/demo/mas.")]
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


def lines_of(path: Path) -> list[str]:
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
