"""What the reports on facts and on classes share: the plots of a course, its matrix, the page and its files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from factlearn.data.registry import SOURCES
from factlearn.evaluation.results import RunResult
from factlearn.experiments import plots
from factlearn.experiments.changes import Change
from factlearn.experiments.figures import Plot
from factlearn.experiments.report.words import forgotten_share
from factlearn.files import atomic_write
from factlearn.learning.protection import protection_of
from factlearn.learning.runs import Run

TITLE = "What was learned, and what was forgotten"


class Plots(dict[str, Plot]):
    """The plots of a page by name, kept for their files too."""

    def add(self, plot: Plot | None) -> None:
        """Keep a plot; None is none."""
        if plot is not None:
            self[plot.name] = plot

    def add_courses(self, results: Mapping[str, RunResult]) -> None:
        """Curves over everything, each task but the last, and each subset; the matrix; what was forgotten."""
        first = next(iter(results.values()))
        self.add(plots.curves(results, [None], "curves-all"))
        for place, name in enumerate(first.tasks[:-1], 1):
            self.add(plots.curves(results, [name], f"curves-{place}"))
        for name in first.final.subsets():
            self.add(plots.curves(results, [name], f"curves-{name}"))
        self.add(plots.heat_map(results))
        self.add(plots.forgetting_bars(results))


def matrix_rows(label: str, result: RunResult) -> dict[str, Any]:
    """A method's matrix as the page's table: each number with how dark its cell is."""
    rows = []
    for after, values, whole in zip(result.moments, result.matrix(), result.whole(), strict=True):
        cells = [None if value is None else (f"{value:.3f}", f"{0.95 * value:.2f}") for value in values]
        rows.append({"after": after, "cells": cells, "all": f"{whole or 0.0:.3f}"})
    lost = result.forgetting()
    return {
        "method": label,
        "tasks": result.tasks,
        "rows": rows,
        "forgetting": None if lost is None or not lost.per_task else f"{lost.average:.3f}",
    }


def protections(results: Mapping[str, RunResult]) -> list[dict[str, Any]]:
    """Before and after of what each run protects; runs that protect nothing in particular are left out."""
    found = {label: protection_of(result.run) for label, result in results.items()}
    return [{"method": label, **protection.to_json()} for label, protection in found.items() if protection]


def learned_how(results: Mapping[str, RunResult]) -> dict[str, Any]:
    """How many tasks were learned one after the other, and whether some run learned several at once."""
    in_turn = [len(result.learned[-1]) for result in results.values() if not result.at_once]
    return {"in_turn": max(in_turn, default=0), "at_once": any(result.at_once for result in results.values())}


def forgotten(changes: Mapping[str, Sequence[Change]], kinds: str) -> list[dict[str, Any]]:
    """What each method lost most of, and how much that is of all, in words."""
    return [
        {"method": label, "sentence": forgotten_share(listed, kinds), "rows": listed[:10]}
        for label, listed in changes.items()
    ]


def notice_of(run: Run) -> str:
    """Who owns the pictures that a run's data source gives."""
    return SOURCES.find(run.config.data.source).notice


def about_run(label: str, run: Run, data: str) -> dict[str, Any]:
    """How a run was made."""
    about = run.description()
    return {
        "method": label,
        "folder": str(run.folder),
        "seed": run.config.seed,
        "versions": about.get("versions", {}),
        "data": f"{data}, fingerprint {about.get('data_fingerprint', '-')}",
        "config": run.config.to_yaml(),
    }


def write_page(template: str, path: Path, kept: Plots, **page: Any) -> list[Path]:
    """Write the page, and beside it a folder with every plot as SVG and its numbers as CSV; both are returned."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    folder = path.with_name(f"{path.stem}-files")
    loader = PackageLoader("factlearn.experiments")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    text = environment.get_template(template).render(files=folder.name, plots=kept, **page)
    for plot in kept.values():
        plot.save(folder)
    with atomic_write(path) as stream:
        stream.write(text)
    return [path, folder]
