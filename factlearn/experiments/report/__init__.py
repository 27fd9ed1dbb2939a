"""The report: one self-contained page of what was learned, what was forgotten, and what that looks like."""

from collections.abc import Sequence
from pathlib import Path

from factlearn.classification.results import ClassResult
from factlearn.errors import ConfigError
from factlearn.experiments.report.classes import write_class_report
from factlearn.experiments.report.page import write_report
from factlearn.learning.results import RunResult

__all__ = ["write_any_report", "write_class_report", "write_report"]


def write_any_report(
    results: list[RunResult] | list[ClassResult],
    path: Path,
    *,
    title: str | None = None,
    queries: Sequence[str] = (),
    k: int = 8,
) -> list[Path]:
    """The report on runs of either kind; see `write_report` and `write_class_report`."""
    classes = [result for result in results if isinstance(result, ClassResult)]
    if not classes:
        facts = [result for result in results if isinstance(result, RunResult)]
        return write_report(facts, path, title=title, queries=queries, k=k)
    if queries:
        raise ConfigError("--query asks for facts, and these runs learned classes; leave it out.")
    return write_class_report(classes, path, title=title, k=k)
