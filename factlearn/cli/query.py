"""The command that searches an index."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factlearn.cli.common import JsonOption, show, show_json
from factlearn.cli.index import IndexArgument, RunOption

if TYPE_CHECKING:
    from factlearn.retrieval import FactIndex

_MARGIN = 0.4  # factlearn.retrieval.negation.MARGIN, which --help need not load
_SURE = 0.5  # factlearn.retrieval.confidence.SURE


def query(
    index: IndexArgument,
    facts: Annotated[
        list[str] | None,
        typer.Argument(
            help='A fact with * as wildcard, such as "<person, riding, *>", or plain words, such as "a man riding a '
            'horse but not a bike"; several are answered one by one.'
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Number of images to return.")] = 10,
    also: Annotated[
        list[str] | None, typer.Option("--and", help="A fact the same image must also show; repeat for more.")
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--not", help="A fact the image must not show; repeat for more.")
    ] = None,
    not_margin: Annotated[
        float, typer.Option(help="How strictly --not excludes, from 0 (least) to 1 (most).", show_default=str(_MARGIN))
    ] = _MARGIN,
    image: Annotated[
        Path | None, typer.Option(help="Query by image: find similar images, and the facts it shows.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Weights of subject, predicate and object, such as 1,2,1.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="Only images that match a filter, such as \"split = 'test' and year >= 2020\".")
    ] = None,
    offset: Annotated[int, typer.Option(help="Skip the first N hits.")] = 0,
    threshold: Annotated[float | None, typer.Option(help="Drop hits with a lower score.")] = None,
    anywhere: Annotated[
        bool,
        typer.Option("--anywhere", help="Match units in any position: <bicycle> also finds <person, riding, bike>."),
    ] = False,
    sure: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Probability below which a hit counts as not seen, 0 to 1.", show_default=str(_SURE)
        ),
    ] = _SURE,
    run: RunOption = None,
    learn_importance: Annotated[
        bool,
        typer.Option(
            "--learn-importance", help="Add the importance of the --image to the run, for `factlearn adapt --used`."
        ),
    ] = False,
    json: JsonOption = False,
    sheet: Annotated[Path | None, typer.Option(help="Write the hits to a contact sheet (PNG).")] = None,
) -> None:
    """Find images that show a fact, or that are similar to an image."""
    from factlearn.cli.tables.index import answer_json, answer_text, hits_table, reading_text
    from factlearn.errors import FactIndexError
    from factlearn.retrieval import FactIndex
    from factlearn.retrieval.anywhere import anywhere as placed_anywhere
    from factlearn.retrieval.sheet import contact_sheet
    from factlearn.retrieval.verdicts import verdict

    facts = facts or []
    if bool(facts) == (image is not None):
        raise FactIndexError('Give either a fact, such as "<person, riding, *>", or an --image.')
    if sheet and len(facts) > 1:
        raise FactIndexError("A contact sheet shows one query; give one fact with --sheet.")
    if anywhere and image is not None:
        raise FactIndexError("--anywhere applies to the units of a fact, not to an --image; leave one out.")
    opened = FactIndex.open(index)
    options: dict[str, Any] = {"k": k, "where": where, "offset": offset, "threshold": threshold, "margin": not_margin}
    options["weights"] = _weights(weights)
    if image is not None:
        _query_image(opened, image, run, without or [], options, json=json, sheet=sheet, learn=learn_importance)
        return
    asked = [opened.read(fact) for fact in facts]
    both, unwanted = [opened.read(fact) for fact in also or ()], [opened.read(fact) for fact in without or ()]
    more = {"also": tuple(map(opened.parse, both)), "without": tuple(map(opened.parse, unwanted))}
    whole = [replace(each, also=each.also + more["also"], without=each.without + more["without"]) for each in asked]
    if anywhere:
        whole = [placed_anywhere(each, opened.vocabulary) for each in whole]
    found = opened.query_many(whole, anywhere=anywhere, **options)
    rights = [
        [verdict(hit.facts, each, opened.vocabulary) for hit in hits] for each, hits in zip(whole, found, strict=True)
    ]
    if sheet:
        contact_sheet(found[0], sheet, query=whole[0], known=opened.vocabulary, sure=sure)
    untaught = [opened.confidence.never_taught(each, options["weights"]) for each in whole]
    if json:
        answers = [answer_json(*answer, sure) for answer in zip(whole, found, rights, untaught, strict=True)]
        show_json(answers[0] if len(answers) == 1 else answers)
        return
    for reading in [*asked, *both, *unwanted]:
        print(reading_text(reading), end="")
    for reading, hits, marks, strange in zip(whole, found, rights, untaught, strict=True):
        print(answer_text(reading, hits, strange, sure), end="")
        show(hits_table(str(reading), hits, marks, sure))


def _query_image(
    opened: "FactIndex",
    image: Path,
    run: Path | None,
    without: list[str],
    options: dict[str, Any],
    *,
    json: bool,
    sheet: Path | None,
    learn: bool,
) -> None:
    """What is similar to an image, and the facts it shows."""
    from factlearn.cli.index import _learn_importance, _run
    from factlearn.cli.tables.index import hits_table, shown_table
    from factlearn.indexing.building import embed_one, run_of
    from factlearn.retrieval.sheet import contact_sheet

    source = _run(run)
    vector = embed_one(opened, image, source)
    hits = opened.similar(vector, without=without, **options)
    shown = opened.facts_of(vector)
    if learn:
        _learn_importance(run_of(opened, source), [image])
    if sheet:
        contact_sheet(hits, sheet)
    if json:
        facts = [{"fact": str(one.fact), "score": one.score, "probability": one.probability} for one in shown]
        show_json({"query": str(image), "hits": [hit.to_json() for hit in hits], "facts": facts})
        return
    show(shown_table(shown))
    show(hits_table(str(image), hits))


def _weights(text: str | None) -> list[float] | None:
    from factlearn.errors import FactIndexError

    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise FactIndexError(f"{text!r} are not weights; write three numbers such as 1,2,1.") from None
