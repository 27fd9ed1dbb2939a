"""Commands that build indexes and search them."""

from pathlib import Path
from typing import Annotated

import typer

from factlearn.cli.common import JsonOption, RunArgument, show, show_json

app = typer.Typer(help="Build an index of images that `factlearn query` searches.", no_args_is_help=True)


def query(
    index: Annotated[Path, typer.Argument(metavar="INDEX", help="An index, such as indexes/demo.")],
    fact: Annotated[str, typer.Argument(help='A fact with * for what is open, such as "<person, riding, *>".')],
    k: Annotated[int, typer.Option("-k", help="How many images.")] = 10,
    json: JsonOption = False,
    sheet: Annotated[Path | None, typer.Option(help="Write the images as one picture.")] = None,
) -> None:
    """Find the images that show a fact."""
    from factlearn.retrieval import FactIndex
    from factlearn.tables import hits_table

    opened = FactIndex.open(index)
    asked = opened.parse(fact)
    hits = opened.query(asked, k=k)
    if sheet:
        from factlearn.retrieval.sheet import contact_sheet

        contact_sheet(hits, sheet, query=asked)
    if json:
        show_json({"query": str(asked), "hits": [hit.to_json() for hit in hits]})
    else:
        show(hits_table(asked, hits))


@app.command()
def build(
    run: RunArgument,
    out: Annotated[Path, typer.Option(help="The index to make, such as indexes/photos.")],
    images: Annotated[
        str, typer.Option(help="A folder, a manifest, or the run's own images: test, train or all.")
    ] = "test",
    stage: Annotated[
        int | None, typer.Option(help="Use the model as it was after this stage; the last if not given.")
    ] = None,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out images that cannot be decoded.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an index already there.")] = False,
    learn_importance: Annotated[
        bool,
        typer.Option(
            "--learn-importance",
            help="Remember in the run what these images make important; see `factlearn adapt --used`.",
        ),
    ] = False,
) -> None:
    """Embed images with a run's model and index them."""
    from factlearn.runs import Run

    opened = Run.open(run)
    from factlearn.indexing import build_index

    index = build_index(opened, images, out, stage=stage, skip_unreadable=skip_unreadable, overwrite=overwrite)
    if learn_importance:
        from factlearn.adaptation import learn_from_use

        learned = learn_from_use(opened, index)
        print(f"{run}: importance of {learned.count:.0f} images in use")
    print(f'{out}: {len(index)} images; try: factlearn query {out} "<person, riding, *>"')
