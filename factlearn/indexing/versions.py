"""Which run and which of its models an index is kept up to date with."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from factlearn.errors import FactIndexError, FactlearnError
from factlearn.facts import Fact
from factlearn.learning.held_out import calibration_of, taught
from factlearn.learning.runs import Run
from factlearn.models.network import TwoPartModel
from factlearn.retrieval import FactIndex, Version


def version_of(run: Run, model: TwoPartModel[Any], stage: int) -> Version:
    """How an index names the model that a stage left."""
    first = run.stage(1)["model_fingerprint"]
    found = calibration_of(run, stage)
    facts = sorted({fact for facts in taught(run, stage).values() for fact in facts})
    return Version(
        model.fingerprint(),
        first,
        str(run.folder.resolve()),
        stage,
        calibration=None if found is None else found.to_json(),
        taught=tuple(map(str, facts)),
    )


def known_facts(run: Run) -> list[Fact]:
    """The facts of all tasks of a run, so that plain words of those not learned yet are read too."""
    return list(dict.fromkeys(fact for task in run.tasks().tasks for fact in task.facts))


def run_of(index: FactIndex, run: Run | None = None) -> Run:
    """The run that keeps an index up to date: the one given, or the one its newest vectors came from.

    A run that was moved together with the index, or that still has its place relative to it, is found there.

    Raises:
        FactIndexError: if the run is not known, or not where it was.
    """
    if run is not None:
        return run.check_facts()
    entry = index.models[index.model]
    if entry.run is None:
        raise FactIndexError(f"{index.path} does not know which run made it; name it with --run RUN.")
    recorded = Path(entry.run)
    if (recorded / "config.yaml").is_file():
        return Run.of_facts(recorded)
    for place in _places(index.path, recorded):
        if _descends(place, entry.lineage):
            return Run.of_facts(place)
    raise FactIndexError(
        f"The run that made {index.path} is no longer at {recorded}, nor in the same place relative to the index; "
        "if it was moved, name it with --run RUN."
    )


def _places(index: Path | str, recorded: Path) -> Iterator[Path]:
    """Where a run may be now: the tail of its path, the longest first, below each folder above the index."""
    start = Path(index).absolute() if Path(index).is_dir() else Path.cwd() / "index"
    tails = [Path(*recorded.parts[first:]) for first in range(1, len(recorded.parts))]
    for tail in tails:
        for folder in start.parents:
            if (folder / tail / "config.yaml").is_file():
                yield folder / tail


def _descends(folder: Path, lineage: str) -> bool:
    """Whether the run in a folder began with the model that the index's models descend from."""
    try:
        return bool(Run.of_facts(folder).stage(1)["model_fingerprint"] == lineage)
    except (FactlearnError, KeyError):
        return False


def stage_of(index: FactIndex, run: Run) -> int:
    """The stage of a run whose model made the index's newest vectors; the last one if none did."""
    stages = range(run.finished_stages(), 0, -1)
    made = (stage for stage in stages if run.stage(stage).get("model_fingerprint") == index.model)
    return next(made, run.finished_stages())
