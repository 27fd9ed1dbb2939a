"""The command that lists what configs and commands may name."""

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from factlearn.cli.common import JsonOption, show, show_json

if TYPE_CHECKING:
    from factlearn.config import Registry

Kind = Literal["methods", "sources", "backbones", "stores", "experiments"]
_PLACES = {
    "methods": "factlearn.lifelong.registry",
    "sources": "factlearn.data.registry",
    "backbones": "factlearn.models.backbones",
    "stores": "factlearn.retrieval.stores",
    "experiments": "factlearn.experiments.paper.registry",
}


def entries(kind: str) -> dict[str, dict[str, Any]]:
    """Every registered variant of a kind by name, with its title, one-line summary, and what else it says of itself."""
    return {name: _about(entry, name) for name, entry in _registry(kind).items()}


def _registry(kind: str) -> "Registry[Any]":
    found: Registry[Any] = getattr(import_module(_PLACES[kind]), kind.upper())
    return found


def _about(entry: Any, name: str) -> dict[str, Any]:
    if hasattr(entry, "described"):
        return dict(entry.described())
    return {"title": getattr(entry, "title", name), "summary": entry.summary}


def naming(*kinds: Kind) -> type[TyperCommand]:
    """A command whose --help ends with the names registered for these kinds, looked up only when help is asked for."""

    class Naming(TyperCommand):
        def format_help(self, ctx: Any, formatter: Any) -> None:
            self.epilog = "\n\n".join(f"{kind}: {', '.join(_registry(kind))}" for kind in kinds)
            super().format_help(ctx, formatter)

    return Naming


def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    name: Annotated[
        str | None, typer.Argument(help="Only this one, such as the backbone torchvision/resnet18.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the available lifelong methods, data sources, backbones, vector stores or experiments."""
    found = _one(kind, name) if name else entries(kind)
    if json:
        show_json(found)
        return
    from rich.table import Table

    table = Table(title=kind)
    columns = ["name", "title", "summary", *(_BACKBONE_COLUMNS if kind == "backbones" else ())]
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for each, about in found.items():
        table.add_row(each, about["title"], about["summary"], *(_backbone_cells(about) if kind == "backbones" else ()))
    show(table)
    if kind == "backbones" and not name:
        show("Also torchvision/NAME, any of torchvision's convolutional classifiers, with weights of your own.")


def _one(kind: str, name: str) -> dict[str, dict[str, Any]]:
    if kind == "backbones":
        from factlearn.models.backbones import find_backbone

        return {name: _about(find_backbone(name), name)}
    return {name: _about(_registry(kind).find(name), name)}


_BACKBONE_COLUMNS = ("blocks (channels)", "mean, deviation of pixels", "weights")


def _backbone_cells(about: dict[str, Any]) -> tuple[str, str, str]:
    """Where a backbone can be cut, its normalisation, its asset and licence."""
    blocks = ", ".join(f"{block} ({channels or '?'})" for block, channels in about["blocks"].items())
    mean, std = (" ".join(f"{value:.3g}" for value in about[key]) for key in ("mean", "std"))
    weights = f"{about['weights']}: {about['licence']}" if about["weights"] else "your own"
    return (blocks, f"{mean}; {std}", weights) if about["blocks"] else ("none", "as they are", "none")
