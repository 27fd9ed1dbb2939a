"""The report: one self-contained page of what was learned, what was forgotten, and what that looks like."""

from collections.abc import Sequence
from pathlib import Path

from factlearn.errors import ConfigError
from factlearn.evaluation.results import RunResult
from factlearn.experiments.report.classes import write_class_report
from factlearn.experiments.report.facts import write_fact_report

__all__ = ["write_class_report", "write_fact_report", "write_report"]


def write_report(
    results: Sequence[RunResult],
    path: Path,
    *,
    title: str | None = None,
    queries: Sequence[str] = (),
    k: int = 8,
) -> list[Path]:
    """The report on runs of either kind; see `write_fact_report` and `write_class_report`."""
    if not results or results[0].run.config.learn == "facts":
        return write_fact_report(results, path, title=title, queries=queries, k=k)
    if queries:
        raise ConfigError("--query asks for facts, and these runs learned classes; leave it out.")
    return write_class_report(results, path, title=title, k=k)
