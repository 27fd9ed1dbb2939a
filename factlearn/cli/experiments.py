"""Commands that compare runs, report on them, and repeat the paper's experiments."""

from pathlib import Path
from typing import Annotated

import typer

from factlearn.cli.common import JsonOption, RunsArgument, show, show_json


def compare(runs: RunsArgument, json: JsonOption = False) -> None:
    """Compare methods: mean and deviation over seeds, and a paired test on the facts' average precisions."""
    from factlearn.experiments import comparison
    from factlearn.experiments.naming import group_runs, load_runs

    groups = group_runs(load_runs(runs))
    scores, tests = comparison.score_methods(groups), comparison.paired_tests(groups)
    if json:
        show_json(comparison.comparison_json(scores, tests))
        return
    show(comparison.scores_table(scores))
    if tests:
        show(comparison.tests_table(tests))


def report(
    runs: RunsArgument,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    query: Annotated[
        list[str] | None,
        typer.Option(help="A fact whose images to show after each task; again for more; telling ones if not given."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, max=50, help="How many images of each query.")] = 8,
    title: Annotated[str | None, typer.Option(help="The page's heading.")] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Write a PDF too; needs Chromium or Chrome.")] = False,
) -> None:
    """One page that shows what was learned and forgotten, with every plot as SVG and CSV beside it."""
    from factlearn.experiments.naming import load_runs
    from factlearn.experiments.report import write_report
    from factlearn.experiments.report.pdf import find_browser, write_pdf

    browser = find_browser() if pdf else None
    written = write_report(load_runs(runs), out, title=title, queries=query or (), k=k)
    if browser:
        written.append(write_pdf(out, browser))
    for path in written:
        print(path)


def add_commands(app: typer.Typer) -> None:
    """Make these commands of the command line."""
    for command in (compare, report):
        app.command()(command)
