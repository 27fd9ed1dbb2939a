"""Commands that compare runs, report on them, and reproduce the paper's experiments."""

import dataclasses
import shlex
from pathlib import Path
from typing import Annotated

import typer

from factlearn.cli.common import JsonOption, RunsArgument, SetOption, show, show_json
from factlearn.cli.registries import naming


def compare(runs: RunsArgument, json: JsonOption = False) -> None:
    """Compare methods: mean and deviation over seeds, and a paired test over facts or classes."""
    from factlearn.cli.tables.experiments import scores_table, tests_table
    from factlearn.experiments import comparison
    from factlearn.experiments.naming import group_runs, load_runs

    results = load_runs(runs)
    groups, learn = group_runs(results), results[0].run.config.learn
    scores, tests = comparison.score_methods(groups), comparison.paired_tests(groups)
    if json:
        show_json(comparison.comparison_json(scores, tests))
        return
    show(scores_table(scores, learn))
    if tests:
        show(tests_table(tests, learn))


def report(
    runs: RunsArgument,
    out: Annotated[Path, typer.Option(help="The HTML page to write.")] = Path("report.html"),
    query: Annotated[
        list[str] | None,
        typer.Option(help="Show what this fact finds after each task; repeat for more; by default chosen for you."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, max=50, help="Number of images per query.")] = 8,
    title: Annotated[str | None, typer.Option(help="The page's heading.")] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Write a PDF too; needs Chromium or Chrome.")] = False,
) -> None:
    """Write an HTML page on what runs learned and forgot, with every plot as SVG and CSV next to it."""
    from factlearn.experiments.naming import load_runs
    from factlearn.experiments.report import write_report
    from factlearn.experiments.report.pdf import find_browser, write_pdf

    browser = find_browser() if pdf else None
    written = write_report(load_runs(runs), out, title=title, queries=query or (), k=k)
    if browser:
        written.append(write_pdf(out, browser))
    for path in written:
        print(path)


def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment; `list` shows them, `all` runs every one.")],
    scale: Annotated[str, typer.Option(help="small: minutes on two cores; full: the paper's own setting.")] = "small",
    data: Annotated[
        str, typer.Option(help="emoji, or a manifest such as photos.csv; for object tasks, a folder.")
    ] = "emoji",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds; each has its own split and initial weights.")] = 3,
    methods: Annotated[
        str, typer.Option(help="Methods to compare, comma-separated; by default the experiment's own.")
    ] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Number of runs to train at the same time.")] = 1,
    config: Annotated[
        Path | None, typer.Option(help="A config for the facts experiments, instead of --scale and --data.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for runs and results.")] = Path("runs"),
) -> None:
    """Reproduce a table or figure of the paper; finished runs are reused, so a sweep can be stopped and resumed."""
    from factlearn.cli.tables.experiments import experiments_table, outcome_tables
    from factlearn.experiments.paper.registry import EXPERIMENTS, run_experiment
    from factlearn.experiments.paper.request import Request

    def asked() -> Request:
        chosen = [method.strip() for method in methods.split(",") if method.strip()]
        return Request(scale=scale, data=data, seeds=seeds, methods=chosen, jobs=jobs, out=out, config_path=config)

    if name == "list":
        asked().check()
        show(experiments_table(asked()))
        return
    for each in EXPERIMENTS if name == "all" else [name]:
        outcome, folder = run_experiment(each, asked())
        print(f"\n{outcome.name}: {outcome.title} ({outcome.paper}); {outcome.setting}")
        show(*outcome_tables(outcome))
        for note in outcome.notes:
            print(note)
        print(f"{outcome.runs} runs, learned in {outcome.seconds:.0f} s; kept in {folder}")


def results(
    runs: Annotated[Path, typer.Argument(help="Folder in which `factlearn reproduce` keeps its results.")] = Path(
        "runs"
    ),
    out: Annotated[Path, typer.Option(help="The Markdown file to write.")] = Path("docs/results.md"),
) -> None:
    """Write all results to one Markdown page, next to the paper's numbers."""
    from factlearn.experiments.paper.results_page import write_results

    write_results(runs, out)
    print(out)


def tune(
    config: Annotated[Path, typer.Argument(help="A YAML file, such as configs/demo.yaml.")],
    set_: SetOption = None,
    rates: Annotated[
        str, typer.Option(help="Learning rates to try, comma-separated; by default around the config's own.")
    ] = "",
    lambdas: Annotated[str, typer.Option(help="Lambdas to try, comma-separated; by default 0.1 to 1000.")] = "",
    accept: Annotated[float, typer.Option(help="Acceptable share of the score without a penalty, 0 to 1.")] = 0.95,
    rule: Annotated[
        str,
        typer.Option(
            help="new: judge by the second task alone; end: by the final score, in decades around the config's."
        ),
    ] = "new",
    tasks: Annotated[int, typer.Option(min=2, help="Number of tasks to learn with --rule end.")] = 3,
    out: Annotated[Path | None, typer.Option(help="Folder for the trial runs; default runs/tune/NAME.")] = None,
    json: JsonOption = False,
) -> None:
    """Choose the learning rate and lambda: the largest lambda with acceptable performance on the new task.

    With --rule end, choose lambda only: the best final score on held-out training images of the first tasks.
    """
    from factlearn.errors import ConfigError
    from factlearn.learning.config import load_config

    if rule not in ("new", "end"):
        raise ConfigError(f"--rule is new or end, not {rule!r}.")

    loaded = load_config(config, set_ or ())
    from factlearn.cli.tables.experiments import tuning_table
    from factlearn.experiments import tuning

    tried = {"rates": _numbers(rates, "--rates"), "strengths": _numbers(lambdas, "--lambdas") or tuning.STRENGTHS}
    place = out or Path("runs/tune") / config.stem
    if rule == "end":
        from factlearn.experiments.decades import tune_by_decades

        found = tune_by_decades(loaded, place, tasks=tasks)
    else:
        found = tuning.tune(loaded, place, accept=accept, **tried)
    if json:
        show_json({"chosen": found.overrides(), **dataclasses.asdict(found)})
        return
    show(tuning_table(found))
    options = " ".join(f"--set {shlex.quote(override)}" for override in [*(set_ or ()), *found.overrides()])
    print(f"factlearn train {config} {options}")


def _numbers(text: str, option: str) -> list[float]:
    from factlearn.errors import ConfigError

    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ConfigError(f"{option} takes numbers separated by commas, such as 0.1,1,10, not {text!r}.") from None


def add_commands(app: typer.Typer) -> None:
    """Make these commands of the command line."""
    app.command(cls=naming("experiments"))(reproduce)
    for command in (compare, report, results, tune):
        app.command()(command)
