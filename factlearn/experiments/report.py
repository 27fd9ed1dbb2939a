"""One self-contained page that shows what was learned, what was forgotten, and what that looks like."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from factlearn.datasets.images import load_image
from factlearn.errors import ImageError, RunError
from factlearn.experiments.plots import curves_svg
from factlearn.facts import FactQuery, Relevance
from factlearn.files import atomic_write
from factlearn.results import RunResult
from factlearn.scoring import masked_scores

_THUMBNAIL = 64


@dataclass(frozen=True)
class Retrieved:
    """One image found for a query, ready for the page."""

    picture: str
    label: str
    right: bool


@dataclass(frozen=True)
class Strip:
    """The first images found for a query after one stage of one method."""

    method: str
    after: str
    images: list[Retrieved]

    @property
    def right(self) -> int:
        """How many of them are right."""
        return sum(image.right for image in self.images)


def write_report(
    results: Mapping[str, RunResult], queries: Sequence[str], path: Path, *, title: str, k: int = 8
) -> None:
    """Write the page.

    Args:
        results: the runs by the names the page calls them; all over the same data and tasks.
        queries: facts whose images are shown as found after each task.
        path: the .html file.
        title: its heading.
        k: how many images of each query are shown.
    """
    from jinja2 import Environment, PackageLoader

    tasks = [[task.name for task in result.tasks.tasks] for result in results.values()]
    if not results or any(names != tasks[0] for names in tasks):
        raise RunError("A report needs runs over the same tasks; give runs that share a split.")
    environment = Environment(loader=PackageLoader("factlearn.experiments"), autoescape=True)
    first = next(iter(results.values()))
    page = environment.get_template("report.html").render(
        title=title,
        summary=_summary(results),
        tasks=[
            {
                "name": task.name,
                "facts": len(task.facts),
                "typical": [str(f) for f in (task.typical or task.facts)[:5]],
            }
            for task in first.tasks.tasks
        ],
        matrices=[_matrix(method, result) for method, result in results.items()],
        curves=[curves_svg(results, [None]), curves_svg(results, [tasks[0][0]])],
        queries=[{"query": text, "strips": _strips(results, text, k)} for text in queries],
        forgotten=_forgotten(results),
        versions=first.run.description()["versions"],
        config=first.run.config.to_yaml(),
    )
    with atomic_write(path) as stream:
        stream.write(page)


def _summary(results: Mapping[str, RunResult]) -> list[str]:
    """The result in words."""
    sentences = []
    for method, result in results.items():
        lost = result.forgetting(Relevance.EXACT)
        text = f"{method} ends with MAP {result.final.map_all:.3f} over all test images"
        if lost is None:
            sentences.append(f"{text}; it saw all tasks at once, so it is the bound the others aim for.")
        else:
            sentences.append(f"{text}; on the tasks before the last it lost {lost.average:.3f} MAP on average.")
    return sentences


def _matrix(method: str, result: RunResult) -> dict[str, Any]:
    rows = []
    stages = zip(result.matrix(Relevance.EXACT), result.learned, result.evaluations, strict=True)
    for values, learned, evaluation in stages:
        cells = [None if value is None else (f"{value:.3f}", f"{0.85 * value:.2f}") for value in values]
        after = learned[-1] if len(result.learned) > 1 else "all at once"
        rows.append({"after": after, "cells": cells, "all": f"{evaluation.map_all:.3f}"})
    lost = result.forgetting(Relevance.EXACT)
    return {
        "method": method,
        "tasks": [task.name for task in result.tasks.tasks],
        "rows": rows,
        "forgetting": None if lost is None else f"{lost.average:.3f}",
    }


def _strips(results: Mapping[str, RunResult], text: str, k: int) -> list[Strip]:
    query = FactQuery.parse(text)
    strips = []
    for method, result in results.items():
        targets, mask = result.language.embed([query])
        samples = result.dataset.of_split("test").samples
        for learned, vectors in zip(result.learned, result.vectors, strict=True):
            best = np.argsort(-masked_scores(vectors, targets, mask)[0], kind="stable")[:k]
            images = [
                Retrieved(_thumbnail(samples[i].path), str(fact), query.matches(fact))
                for i in best
                if (fact := samples[i].fact)
            ]
            after = learned[-1] if len(result.learned) > 1 else "all tasks at once"
            strips.append(Strip(method, after, images))
    return strips


def _forgotten(results: Mapping[str, RunResult], count: int = 10) -> list[dict[str, Any]]:
    """The facts that each method lost most of between learning them and the end."""
    lists = []
    for method, result in results.items():
        if len(result.evaluations) < 2:
            continue
        final = result.final.exact.whole.average_precision
        losses = []
        for task, evaluation in zip(result.tasks.tasks, result.evaluations, strict=False):
            then = evaluation.exact.whole.average_precision
            losses += [(then[name] - final[name], name) for fact in task.facts if (name := str(fact)) in then]
        losses.sort(reverse=True)
        rows = [{"fact": name, "lost": f"{loss:.2f}", "now": f"{final[name]:.2f}"} for loss, name in losses[:count]]
        lists.append({"method": method, "rows": rows})
    return lists


def _thumbnail(path: Path) -> str:
    """A small picture as a data address; empty where the image cannot be read any more."""
    try:
        image = load_image(path)
    except ImageError:
        return ""
    image.thumbnail((_THUMBNAIL, _THUMBNAIL))
    stream = io.BytesIO()
    image.save(stream, format="WEBP", quality=80)
    return "data:image/webp;base64," + base64.b64encode(stream.getvalue()).decode()
