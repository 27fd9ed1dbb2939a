"""Comparisons, the paper's tables and tuning as tables for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from factlearn.cli.tables.basics import number

if TYPE_CHECKING:
    from factlearn.experiments.comparison import MethodScore, PairedTest
    from factlearn.experiments.paper.outcome import Outcome
    from factlearn.experiments.paper.request import Request
    from factlearn.experiments.tuning import Tuning


def scores_table(scores: "Sequence[MethodScore]", learn: str) -> Table:
    """One row per method."""
    from factlearn.experiments.comparison import CLASS_COLUMNS, FACT_COLUMNS, scores_rows

    title = "At the end of the sequence, mean ± deviation over seeds"
    return _table(title, FACT_COLUMNS if learn == "facts" else CLASS_COLUMNS, scores_rows(scores))


def tests_table(tests: "Sequence[PairedTest]", learn: str) -> Table:
    """One row per pair of methods."""
    from factlearn.experiments.comparison import TEST_COLUMNS, tests_rows

    what = "facts: average precision" if learn == "facts" else "classes: accuracy"
    return _table(f"Paired on {what} at the end (randomisation test, Holm-adjusted)", TEST_COLUMNS, tests_rows(tests))


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left")
    for row in rows:
        table.add_row(*row)
    return table


def outcome_tables(outcome: "Outcome") -> list[Table]:
    """The outcome for a terminal: `paper | here` in every cell, and whether the order is the same."""
    from factlearn.experiments.paper.outcome import verdict

    shown = []
    for content in outcome.tables:
        compared = any(e.paper is not None for e in content.entries)
        heading = f"{content.title}{' (paper | here)' if compared else ''}"
        table = Table(title=heading, caption=content.note or None)
        table.add_column("", overflow="fold")
        for column in content.columns:
            table.add_column(column, justify="right", overflow="fold")
        for row in content.rows:
            table.add_row(row, *(content.cell(row, column) for column in content.columns))
        orders = [content.ordering(column) for column in content.columns]
        if compared and any(order != "-" for order in orders):
            table.add_section()
            table.add_row("same ordering?", *orders)
        shown.append(table)
    if outcome.statements:
        table = Table(title="What holds here")
        for column in ("statement", "holds", "figures"):
            table.add_column(column, overflow="fold")
        for statement in outcome.statements:
            table.add_row(statement.text, verdict(statement.holds), statement.detail)
        shown.append(table)
    return shown


def experiments_table(request: "Request") -> Table:
    """One row per experiment; the time is that of all its runs, whichever experiment learned them first."""
    from factlearn.experiments.paper.registry import EXPERIMENTS, kept_outcome

    table = Table(title=f"Experiments, {request.data}, {request.scale} scale")
    for column in ("name", "paper", "what", "runs", "time here"):
        right = column in ("runs", "time here")
        table.add_column(column, justify="right" if right else "left", overflow="fold", no_wrap=column == "name")
    for found in EXPERIMENTS.values():
        kept = kept_outcome(request, found)
        time = f"{kept.seconds / 60:.1f} min" if kept else "not run yet"
        table.add_row(found.name, found.paper, found.title, str(kept.runs) if kept else "", time)
    return table


def tuning_table(tuning: "Tuning") -> Table:
    """Every trial, and what was chosen."""
    table = Table(title="The new task's held-out images")
    for column in ("tried", "value", "score", "acceptable"):
        table.add_column(column, justify="left" if column == "tried" else "right")
    for trial in tuning.trials:
        chosen = trial.value == (tuning.learning_rate if trial.what == "learning rate" else tuning.strength)
        verdict = "chosen" if chosen else "" if trial.what == "learning rate" else "yes" if trial.acceptable else "no"
        table.add_row(trial.what, f"{trial.value:g}", number(trial.score), verdict)
    return table
