"""Commands for named weights, word vectors and pictures."""

from pathlib import Path
from typing import Annotated

import typer

from factlearn.cli.common import JsonOption, show, show_json

app = typer.Typer(help="List, fetch and locate pretrained weights, word vectors and pictures.", no_args_is_help=True)


@app.command("list")
def assets_list(json: JsonOption = False) -> None:
    """List what can be fetched, and what is already in the cache."""
    from factlearn.assets import ASSETS
    from factlearn.cli.tables.assets import assets_json, assets_table

    if json:
        show_json(assets_json(ASSETS.values()))
    else:
        show(assets_table(ASSETS.values()))


@app.command("fetch")
def assets_fetch(
    names: Annotated[list[str], typer.Argument(help="Assets by name; `factlearn assets list` shows them.")],
    path: Annotated[Path | None, typer.Option(help="Use this local file instead of downloading.")] = None,
) -> None:
    """Download assets into the cache, check and convert them."""
    from factlearn.assets import fetch
    from factlearn.progress import say

    for name in names:
        print(fetch(name, path=path, progress=say))


@app.command("path")
def assets_path(name: Annotated[str, typer.Argument(help="An asset that was fetched.")]) -> None:
    """Print where an asset is on disk."""
    from factlearn.assets import cached_path
    from factlearn.errors import AssetError

    found = cached_path(name)
    if found is None:
        raise AssetError(f"{name} is not in the cache; fetch it with `factlearn assets fetch {name}`.")
    print(found)
