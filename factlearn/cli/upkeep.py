"""Commands that maintain an installation: checks, licences, and backups of runs and indexes."""

from pathlib import Path
from typing import Annotated

import typer

from factlearn.cli.common import JsonOption, show, show_json


def doctor(json: JsonOption = False) -> None:
    """Check that this installation works: versions, devices, disk, assets and optional parts.

    The exit code is 2 if something required is missing or broken; the table says what to do about it.
    """
    from factlearn.cli.tables.upkeep import findings_table
    from factlearn.upkeep.doctor import examine, usable

    findings = examine()
    if json:
        show_json({"usable": usable(findings), "findings": [finding.to_json() for finding in findings]})
    else:
        show(findings_table(findings))
    if not usable(findings):
        raise typer.Exit(2)


def licences(json: JsonOption = False) -> None:
    """List the licences of the packages in use and of the assets."""
    from factlearn.assets import ASSETS
    from factlearn.cli.tables.upkeep import licences_json, licences_tables
    from factlearn.upkeep.packages import installed

    if json:
        show_json(licences_json(installed(), ASSETS.values()))
    else:
        show(*licences_tables(installed(), ASSETS.values()))


def backup(
    place: Annotated[str, typer.Argument(metavar="INDEX|RUN", help="An index folder or a run directory.")],
    file: Annotated[Path, typer.Argument(help="The file to write, such as demo.tar.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
) -> None:
    """Back up a run or an index to one file, consistently even while it is being written to.

    Photos are not included. The file is a plain tar that ends with a list of checksums.
    """
    from factlearn.cli.tables.upkeep import backup_text
    from factlearn.upkeep.backup import backup as back_up

    print(f"{file}: {backup_text(back_up(place, file, overwrite=overwrite))}")


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `factlearn backup` wrote.")],
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to create.")],
) -> None:
    """Restore a backup to a new folder, checking every file; a damaged or forged backup leaves nothing behind."""
    from factlearn.cli.tables.upkeep import backup_text
    from factlearn.upkeep.backup import restore as bring_back

    print(f"{out}: {backup_text(bring_back(file, out))}")


def add_commands(app: typer.Typer) -> None:
    """Make these commands of the command line."""
    for command in (doctor, backup, restore, licences):
        app.command()(command)
