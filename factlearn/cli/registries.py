"""The command that lists what configs and commands may name."""

from importlib import import_module
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from factlearn.cli.common import JsonOption, show, show_json

Kind = Literal["methods", "sources", "backbones", "stores", "experiments"]
_PLACES = {
    "methods": "factlearn.lifelong.registry",
    "sources": "factlearn.data.registry",
    "backbones": "factlearn.models.backbones",
    "stores": "factlearn.retrieval.stores",
    "experiments": "factlearn.experiments.paper.registry",
}


def entries(kind: str) -> dict[str, dict[str, str]]:
    """Every registered variant of a kind by name, with its title and one-line summary."""
    registry = getattr(import_module(_PLACES[kind]), kind.upper())
    return {
        name: {"title": getattr(entry, "title", name), "summary": entry.summary} for name, entry in registry.items()
    }


def naming(*kinds: Kind) -> type[TyperCommand]:
    """A command whose --help ends with the names registered for these kinds, looked up only when help is asked for."""

    class Naming(TyperCommand):
        def format_help(self, ctx: Any, formatter: Any) -> None:
            self.epilog = "\n\n".join(f"{kind}: {', '.join(entries(kind))}" for kind in kinds)
            super().format_help(ctx, formatter)

    return Naming


def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    json: JsonOption = False,
) -> None:
    """List the lifelong methods, data sources, backbones, vector stores or experiments there are."""
    found = entries(kind)
    if json:
        show_json(found)
        return
    from rich.table import Table

    table = Table(title=kind)
    for column in ("name", "title", "summary"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for name, about in found.items():
        table.add_row(name, about["title"], about["summary"])
    show(table)
