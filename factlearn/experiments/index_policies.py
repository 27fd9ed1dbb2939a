"""What to do with an index when its model has learned another task: three policies compared after each task.

    python -m factlearn.experiments.index_policies RUN...

The test images of a task arrive, and are indexed, when the task has been learned; or, with --at-once, all images when
the first task has been learned, most of them before the model knows their facts. After each later task they are

    re-embedded   all by the newest model,
    kept          as the model wrote them that had just learned their task, or
    guided        re-embedded only where a sample of the fact's images comes nearer to it (`retrieval/drift.py`).

The table shows MAP over all images in the index, queried by all facts learned so far, and the share of older images
that the guided policy embedded again, those it only sampled included.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from factlearn.cli.tables.results import number
from factlearn.data.samples import Sample
from factlearn.evaluation.facts import evaluate_vectors
from factlearn.facts import Fact
from factlearn.indexing.drift import Targets, measure_drift, sample_groups, shown_facts
from factlearn.learning.results import RunResult, load_result
from factlearn.learning.runs import Run

POLICIES = ("re-embedded", "kept", "guided")


@dataclass(frozen=True)
class PolicyRow:
    """After one task: MAP under each policy, and the share of older images embedded again by the guided one."""

    task: str
    images: int
    maps: dict[str, float]
    again: float


def compare_policies(
    result: RunResult, each: int = 5, *, labelled: bool = True, at_once: bool = False, seed: int = 0
) -> list[PolicyRow]:
    """Follow an index through a run.

    Args:
        result: a run with one task a stage.
        each: images sampled for every fact.
        labelled: whether the index knows the facts of its images; if not, the nearest known fact stands in.
        at_once: all images arrive after the first task; otherwise each with its fact's task.
        seed: of the sample.
    """
    test = result.dataset.of_split("test").samples
    shown = [sample.fact for sample in test]
    tasks = {task.name: set(task.facts) for task in result.tasks.tasks}
    held = {policy: result.vectors[0].copy() for policy in POLICIES}
    rows, known, arrived = [], set[Fact](), np.zeros(len(test), bool)
    for stage, names in enumerate(result.learned):
        newest = result.vectors[stage]
        known |= tasks[names[-1]]
        facts = sorted(known)
        targets = result.language.embed(facts)
        fresh = ~arrived if at_once else np.array([fact in tasks[names[-1]] for fact in shown])
        older = np.flatnonzero(arrived)
        held["re-embedded"][older] = newest[older]
        again = 0.0
        if len(older):
            labels = [shown[place] if labelled else None for place in older]
            old = held["guided"][older]
            gains, sampled = _gaining(old, newest[older], labels, facts, targets, each, seed + stage)
            held["guided"][older[gains]] = newest[older[gains]]
            again = float((gains | sampled).mean())
        arrived |= fresh
        for vectors in held.values():
            vectors[fresh] = newest[fresh]
        here = np.flatnonzero(arrived)
        maps = {
            policy: _map(vectors[here], [test[place] for place in here], facts, targets)
            for policy, vectors in held.items()
        }
        rows.append(PolicyRow(names[-1], len(here), maps, again))
    return rows


def _map(vectors: NDArray[np.float32], samples: Sequence[Sample], facts: Sequence[Fact], targets: Targets) -> float:
    known = [place for place, sample in enumerate(samples) if sample.fact]
    images = [fact for sample in samples if (fact := sample.fact)]
    ids = [samples[place].id for place in known]
    return evaluate_vectors(vectors[known], images, facts, targets, ids=ids).map_all or 0.0


def _gaining(
    old: NDArray[np.float32],
    new: NDArray[np.float32],
    labels: Sequence[Fact | None],
    facts: Sequence[Fact],
    targets: Targets,
    each: int,
    seed: int,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which images the guided policy embeds again because their fact gains, and which it looks at to find out."""
    groups = shown_facts(old, labels, facts, targets)
    sampled = sample_groups(groups, each, seed)
    drift = measure_drift(groups, sampled, old[sampled], new[sampled], labels, facts, targets)
    gains = {group.fact for group in drift if group.gains}
    looked_at = np.zeros(len(groups), bool)
    looked_at[sampled] = True
    return np.array([facts[group] in gains for group in groups]), looked_at


def policies_table(rows: Sequence[PolicyRow], title: str) -> Table:
    """A row a task."""
    table = Table(title=title)
    for column in ("after task", "images", *POLICIES, "embedded again, guided"):
        table.add_column(column, justify="left" if column == "after task" else "right")
    for row in rows:
        figures = [number(row.maps[policy]) for policy in POLICIES]
        table.add_row(row.task, str(row.images), *figures, f"{row.again:.0%}")
    return table


def main(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs with one task a stage.")],
    sample: Annotated[int, typer.Option(min=1, help="Images to look at of every fact.")] = 5,
    unlabelled: Annotated[bool, typer.Option("--unlabelled", help="As if the images' facts were not known.")] = False,
    at_once: Annotated[bool, typer.Option("--at-once", help="All images arrive after the first task.")] = False,
) -> None:
    """Compare what can be done with an index when its model learns on."""
    for folder in runs:
        result = load_result(Run.open(folder))
        rows = compare_policies(result, sample, labelled=not unlabelled, at_once=at_once)
        what = f"{'all at once' if at_once else 'task by task'}, facts {'un' if unlabelled else ''}known"
        Console().print(policies_table(rows, f"{folder} ({result.run.config.strategy.name}), {what}"))


if __name__ == "__main__":
    typer.run(main)
