"""The command that searches an index."""

from pathlib import Path
from typing import Annotated, Any

import typer

from factlearn.cli.common import JsonOption, show, show_json
from factlearn.cli.index import IndexArgument, RunOption


def query(
    index: IndexArgument,
    facts: Annotated[
        list[str] | None,
        typer.Argument(help='A fact with * for what is open, such as "<person, riding, *>"; several, each by itself.'),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Number of images to return.")] = 10,
    also: Annotated[list[str] | None, typer.Option("--and", help="A fact the same image must show as well.")] = None,
    without: Annotated[list[str] | None, typer.Option("--not", help="A fact the image must not show.")] = None,
    image: Annotated[Path | None, typer.Option(help="An image: what is similar to it, and the facts it shows.")] = None,
    weights: Annotated[
        str | None, typer.Option(help="Weights of subject, predicate and object, such as 1,2,1.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="A filter, such as \"split = 'test' and cluster in ('sports', 'food')\".")
    ] = None,
    offset: Annotated[int, typer.Option(help="Skip the first N hits.")] = 0,
    threshold: Annotated[float | None, typer.Option(help="Drop hits with a lower score.")] = None,
    run: RunOption = None,
    learn_importance: Annotated[
        bool, typer.Option("--learn-importance", help="Remember in the run what the --image makes important.")
    ] = False,
    json: JsonOption = False,
    sheet: Annotated[Path | None, typer.Option(help="Write the hits to one contact sheet (PNG).")] = None,
) -> None:
    """Find the images that show a fact, or that are like an image."""
    from factlearn.cli.tables.index import hits_table, shown_table
    from factlearn.errors import FactIndexError
    from factlearn.retrieval import FactIndex

    facts = facts or []
    if bool(facts) == (image is not None):
        raise FactIndexError('Ask for a fact, such as "<person, riding, *>", or for an --image.')
    if sheet and len(facts) > 1:
        raise FactIndexError("A picture can be made of one query at a time; ask for one fact with --sheet.")
    opened = FactIndex.open(index)
    options: dict[str, Any] = {"k": k, "where": where, "offset": offset, "threshold": threshold}
    options["weights"] = _weights(weights)
    if image is not None:
        from factlearn.cli.index import _learn_importance, _run
        from factlearn.indexing.building import embed_one, run_of

        source = _run(run)
        vector = embed_one(opened, image, source)
        hits = opened.similar(vector, without=without or (), **options)
        shown = opened.facts_of(vector)
        if learn_importance:
            _learn_importance(run_of(opened, source), [image])
        answers = [(str(image), hits)]
    else:
        asked, together = [opened.parse(fact) for fact in facts], [opened.parse(fact) for fact in also or ()]
        found = opened.query_many(asked, also=together, without=without or (), **options)
        answers = [(" and ".join(map(str, [query, *together])), hits) for query, hits in zip(asked, found, strict=True)]
    if sheet:
        from factlearn.retrieval.sheet import contact_sheet

        contact_sheet(answers[0][1], sheet, query=None if image else asked[0])
    if json:
        each = [{"query": title, "hits": [hit.to_json() for hit in hits]} for title, hits in answers]
        more = {"facts": [{"fact": str(one.fact), "score": one.score} for one in shown]} if image else {}
        show_json({**each[0], **more} if len(each) == 1 else each)
        return
    if image:
        show(shown_table(shown))
    for title, hits in answers:
        show(hits_table(title, hits))


def _weights(text: str | None) -> list[float] | None:
    from factlearn.errors import FactIndexError

    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise FactIndexError(f"{text!r} are not weights; write three numbers such as 1,2,1.") from None
