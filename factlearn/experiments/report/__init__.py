"""The report: one self-contained page of what was learned, what was forgotten, and what that looks like."""

from factlearn.experiments.report.page import write_report

__all__ = ["write_report"]
