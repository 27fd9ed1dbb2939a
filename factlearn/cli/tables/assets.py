"""The assets as a table for people and JSON for programs."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from factlearn.assets import Asset


def assets_json(assets: Iterable["Asset"]) -> list[dict[str, Any]]:
    """The assets as plain JSON values."""
    return [
        {
            "name": asset.name,
            "kind": asset.kind,
            "description": asset.description,
            "licence": asset.licence,
            "bytes": asset.size,
            "sha256": asset.sha256,
            "sources": [str(source) for source in asset.sources],
            "cached": str(asset.path) if asset.cached else None,
        }
        for asset in assets
    ]


def assets_table(assets: Iterable["Asset"]) -> Table:
    """The assets, and which are there already."""
    table = Table(title="Assets")
    for column in ("name", "kind", "download", "cached", "what", "licence"):
        justify: Any = "right" if column == "download" else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column == "name")
    for asset in assets:
        size = f"{asset.size / 1e6:.0f} MB"
        cached = "yes" if asset.cached else "no"
        table.add_row(asset.name, asset.kind, size, cached, asset.description, asset.licence)
    return table
