"""Where the images of some facts lie, in two dimensions, after each task (the paper's last appendix)."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from factlearn.data.tasks import choose_facts
from factlearn.evaluation.results import RunResult
from factlearn.experiments.figures import GREY, Plot, new_figure, style_of, svg_of
from factlearn.facts import Fact
from factlearn.learning.facts import test_vectors

MOST_FACTS = 7


def facts_to_project(result: RunResult, patterns: Sequence[str] = ()) -> list[Fact]:
    """Up to seven facts with test images: of the patterns, else of the config's first subset, else of the first task.

    Facts with different units are preferred, so that the picture is not seven times the same action.
    """
    test = set(result.run.data.of_split("test").facts)
    subsets = list(result.run.config.evaluation.subsets.values())
    chosen = list(patterns) or list(subsets[0] if subsets else ())
    first = result.run.tasks().tasks[0]
    listed = choose_facts(chosen, result.run.data.of_split("train").facts) if chosen else [*first.typical, *first.facts]
    facts = [fact for fact in dict.fromkeys(listed) if fact in test]
    apart: dict[tuple[str | None, ...], Fact] = {}
    for fact in facts:
        apart.setdefault((fact.predicate, fact.object) if fact.predicate else fact.units, fact)
    return [*apart.values(), *(fact for fact in facts if fact not in apart.values())][:MOST_FACTS]


def project(results: Mapping[str, RunResult], facts: Sequence[Fact]) -> Plot | None:
    """The facts' test images on two axes, one row per method, one column per task; None for Joint alone.

    The axes are the two main directions of the images as they lay after the first stage; every later position is
    drawn on the same axes, with the first ones in grey behind it.
    """
    in_turn = {method: result for method, result in results.items() if len(result.learned) > 1}
    if not in_turn or not facts:
        return None
    places = {method: _points(result, facts) for method, result in in_turn.items()}
    origin, axes2 = main_directions(np.concatenate([stages[0][1] for stages in places.values()]))
    first = next(iter(in_turn.values()))
    names = [learned[-1] for learned in first.learned]
    rows = len(in_turn)
    figure = new_figure(2.4 * len(names), 2.3 * rows + 0.9)
    grid = figure.subplots(rows, len(names), squeeze=False, sharex=True, sharey=True)
    table = []
    for row, (method, stages) in enumerate(places.items()):
        before = (stages[0][1] - origin) @ axes2
        for column, (labels, vectors) in enumerate(stages):
            flat = (vectors - origin) @ axes2
            axes = grid[row][column]
            if column:
                axes.scatter(*before.T, s=5, color=GREY, alpha=0.35, linewidths=0)
            for number, fact in enumerate(facts):
                style = style_of(number)
                axes.scatter(*flat[labels == number].T, s=13, color=style["color"], marker=style["marker"],
                             alpha=0.75, linewidths=0, label=str(fact))  # fmt: skip
            axes.set(xticks=[], yticks=[])
            axes.set_title(f"after {names[column]}" if row == 0 else "", fontsize=9)
            if column == 0:
                axes.set_ylabel(method, fontsize=10)
            pairs = zip(labels.tolist(), flat.tolist(), strict=True)
            table += [[method, names[column], str(facts[label]), x, y] for label, (x, y) in pairs]
    handles, labels_ = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels_, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return Plot("projection", svg_of(figure), ("method", "after learning", "fact", "x", "y"), table,
                "Points: test images of some facts, on two axes, after each task and for each method.")  # fmt: skip


def main_directions(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean of vectors [N, D] and their two main directions [D, 2] (PCA), signs fixed."""
    values = vectors.astype(np.float64)
    mean = values.mean(axis=0)
    _, _, directions = np.linalg.svd(values - mean, full_matrices=False)
    two = directions[:2]
    signs = np.sign(two[np.arange(len(two)), np.abs(two).argmax(axis=1)])
    return mean, (two * signs[:, None]).T


def drift(result: RunResult, facts: Sequence[Fact]) -> list[float]:
    """How far the facts' images have moved since the first stage, on average, after each later stage."""
    stages = _points(result, facts)
    return [float(np.linalg.norm(vectors - stages[0][1], axis=1).mean()) for _, vectors in stages[1:]]


def _points(result: RunResult, facts: Sequence[Fact]) -> list[tuple[NDArray[np.intp], NDArray[np.float32]]]:
    """After each stage: which fact each image shows, and its vector; an image of two of them is two points."""
    number = {fact: place for place, fact in enumerate(facts)}
    samples = result.run.data.of_split("test").samples
    shown = [(row, number[fact]) for row, sample in enumerate(samples) for fact in sample.facts if fact in number]
    rows = [row for row, _ in shown]
    labels = np.array([label for _, label in shown], dtype=np.intp)
    meant = result.run.language().embed(list(facts))[1][labels][:, :, None]  # a unit the fact lacks may lie anywhere
    stages = range(1, len(result.learned) + 1)
    return [(labels, (test_vectors(result.run, n)[rows] * meant).reshape(len(rows), -1)) for n in stages]
