"""The command that writes a manifest from folder names."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from factlearn.cli.common import JsonOption, show, show_json

if TYPE_CHECKING:
    from factlearn.data.folder_names import Words


def manifest(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="A folder with one subfolder per fact, such as person_riding_horse."),
    ],
    out: Annotated[Path, typer.Option(help="The CSV file to write.")] = Path("photos.csv"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    vectors: Annotated[
        str, typer.Option(help="Word vectors, which define the known words: an asset or a file.")
    ] = "glove-6b-50d",
    json: JsonOption = False,
) -> None:
    """Write a manifest of photos in folders that are named after the facts they show.

    Folders named train and test, above or below these, define the split; without them, it is made when learning.
    """
    from factlearn.cli.tables.folders import folders_table
    from factlearn.data.folder_facts import check_place, read_folders, write_manifest

    check_place(out, overwrite=overwrite)
    folders = read_folders(folder, _words(vectors))
    write_manifest(folders, out, overwrite=overwrite)
    photos = sum(len(each.photos) for each in folders)
    facts = {each.fact for each in folders if each.photos}
    if json:
        rows = [
            {
                "folder": each.name,
                "fact": each.fact and str(each.fact),
                "photos": len(each.photos),
                "note": each.problem,
            }
            for each in folders
        ]
        show_json({"manifest": str(out), "photos": photos, "facts": len(facts), "folders": rows})
        return
    show(folders_table(folders))
    print(f"{out}: {photos:,} photos of {len(facts):,} fact{'s' * (len(facts) != 1)}.")


def _words(vectors: str) -> "Words":
    from factlearn.data.folder_names import Words
    from factlearn.language import LanguageSpace
    from factlearn.retrieval.words import PREPOSITIONS, is_verb_form

    return Words(is_verb_form, PREPOSITIONS, LanguageSpace.open(vectors).words.key_to_index.get)
