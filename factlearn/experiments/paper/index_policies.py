"""What to do with an index when its model has learned another task: three policies compared after each task.

The test images of a task arrive, and are indexed, when the task has been learned; or, "at once", all images when
the first task has been learned, most of them before the model knows their facts. After each later task they are

    re-embedded   all by the newest model,
    kept          as the model wrote them that had just learned their task, or
    guided        re-embedded only where a sample of the fact's images comes nearer to it (`indexing/drift.py`).

The table shows MAP over all images in the index, queried by all facts learned so far, and the share of older images
that the guided policy embedded again, those it only sampled included.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from factlearn.data.samples import Sample
from factlearn.evaluation.facts import evaluate_vectors
from factlearn.evaluation.results import RunResult
from factlearn.experiments.paper.facts import by_method
from factlearn.experiments.paper.outcome import Outcome, PaperTable, entry
from factlearn.experiments.paper.registry import experiment
from factlearn.experiments.paper.request import Request
from factlearn.facts import Fact
from factlearn.indexing.drift import Targets, measure_drift, sample_groups, shown_facts
from factlearn.learning.facts import test_vectors

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
        result: a run with one task per stage.
        each: images sampled for every fact.
        labelled: whether the index knows the facts of its images; if not, the nearest known fact stands in.
        at_once: all images arrive after the first task; otherwise each with its fact's task.
        seed: of the sample.
    """
    test = result.run.data.of_split("test").samples
    language = result.run.language()
    after = [test_vectors(result.run, stage) for stage in range(1, len(result.learned) + 1)]
    shown = [sample.fact for sample in test]
    tasks = {task.name: set(task.facts) for task in result.run.tasks().tasks}
    held = {policy: after[0].copy() for policy in POLICIES}
    rows, known, arrived = [], set[Fact](), np.zeros(len(test), bool)
    for stage, names in enumerate(result.learned):
        newest = after[stage]
        known |= tasks[names[-1]]
        facts = sorted(known)
        targets = language.embed(facts)
        fresh = ~arrived if at_once else np.array([not tasks[names[-1]].isdisjoint(sample.facts) for sample in test])
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
    images = [samples[place].facts for place in known]
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


@experiment("index-policies", "ours", "Keeping an index up to date when its model learns another task")
def index_policies(request: Request, outcome: Outcome) -> None:
    """MAP over an index's images after each task, under three policies; facts of images known and unknown."""
    results = by_method(request, "agglomerative", ["mas"])["mas"]
    for at_once in (False, True):
        for labelled in (True, False):
            runs = [compare_policies(result, labelled=labelled, at_once=at_once) for result in results]
            entries = []
            for place, task in enumerate(results[0].tasks):
                rows = [run[place] for run in runs]
                entries += [entry(f"after {task}", p, None, [row.maps[p] for row in rows]) for p in POLICIES]
                entries.append(entry(f"after {task}", "embedded again", None, [row.again for row in rows]))
            arrival = "All images arrive after the first task" if at_once else "Images arrive with their task"
            known = "known" if labelled else "unknown"
            outcome.tables.append(PaperTable(f"{arrival}, their facts {known} to the index: MAP", entries))
            end = {policy: mean(run[-1].maps[policy] for run in runs) for policy in POLICIES}
            outcome.say(f"{arrival.lower()}, facts {known}: guided is at least as good as both others",
                        end["guided"] >= max(end.values()) - 1e-3,
                        ", ".join(f"{policy} {value:.3f}" for policy, value in end.items()))  # fmt: skip
