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
    k: Annotated[int, typer.Option("-k", help="How many images.")] = 10,
    also: Annotated[list[str] | None, typer.Option("--and", help="A fact the same image must show as well.")] = None,
    without: Annotated[list[str] | None, typer.Option("--not", help="A fact the image must not show.")] = None,
    image: Annotated[Path | None, typer.Option(help="An image: what is similar to it, and the facts it shows.")] = None,
    weights: Annotated[
        str | None, typer.Option(help="How much subject, predicate and object count, such as 1,2,1.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="A filter, such as \"split = 'test' and cluster in ('sports', 'food')\".")
    ] = None,
    offset: Annotated[int, typer.Option(help="Pass over so many of the best, for pages.")] = 0,
    threshold: Annotated[float | None, typer.Option(help="Leave out images of lower score.")] = None,
    run: RunOption = None,
    learn_importance: Annotated[
        bool, typer.Option("--learn-importance", help="Remember in the run what the --image makes important.")
    ] = False,
    json: JsonOption = False,
    sheet: Annotated[Path | None, typer.Option(help="Write the images as one picture.")] = None,
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
        answers = [
            (" and ".join(map(str, [opened.parse(fact), *map(opened.parse, also or ())])), hits)
            for fact, hits in zip(
                facts, opened.query_many(facts, also=also or (), without=without or (), **options), strict=True
            )
        ]
    if sheet:
        from factlearn.retrieval.sheet import contact_sheet

        contact_sheet(answers[0][1], sheet, query=None if image else opened.parse(facts[0]))
    if json:
        found = [{"query": asked, "hits": [hit.to_json() for hit in hits]} for asked, hits in answers]
        more = {"facts": [{"fact": str(each.fact), "score": each.score} for each in shown]} if image else {}
        show_json({**found[0], **more} if len(found) == 1 else found)
        return
    if image:
        show(shown_table(shown))
    for asked, hits in answers:
        show(hits_table(asked, hits))


def _weights(text: str | None) -> list[float] | None:
    from factlearn.errors import FactIndexError

    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise FactIndexError(f"{text!r} are not weights; write three numbers such as 1,2,1.") from None
