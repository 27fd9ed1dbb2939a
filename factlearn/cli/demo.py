"""The command behind `make demo`."""

from pathlib import Path
from typing import Annotated

import typer

from factlearn.cli.common import show


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs and the report.")] = Path("runs/demo"),
    index: Annotated[Path, typer.Option(help="Folder for the indexes.")] = Path("indexes/demo"),
) -> None:
    """Learn four tasks of emoji facts with four methods, report what each forgets, and search the images."""
    from factlearn.cli.tables.experiments import scores_table
    from factlearn.cli.tables.index import hits_table
    from factlearn.cli.tables.results import matrix_table
    from factlearn.experiments import demo as steps
    from factlearn.experiments.comparison import score_methods
    from factlearn.retrieval.sheet import contact_sheet

    steps.fetch_assets()
    results = {}
    for title, result in steps.learn_methods(out):
        results[title] = result
        show(matrix_table(result))
    show(scores_table(score_methods({title: [result] for title, result in results.items()}), "facts"))
    searched = steps.index_stages(results["MAS"].run, index)
    for place, text in enumerate(steps.QUERIES, 1):
        query = searched.parse(text)
        hits = searched.query(query, k=10)
        show(hits_table(query, hits))
        contact_sheet(hits, out / f"query-{place}.png", query=query)
    print(f"\nThe report: {steps.report(results, out)}")
    print(f"The queries' images: {out / 'query-1.png'} to {out / f'query-{len(steps.QUERIES)}.png'}")
    print(f'Try it: factlearn query {index} "<person, *, hand>" --sheet sheet.png')
    print(f"Open it in a browser: factlearn serve {index}   (or: make serve)")
