"""Adapting a run in closed form: photos of chosen facts or classes count several times when the outputs are solved.

    A_w = A + (w - 1) A_P,   B_w = B + (w - 1) B_P,   P: the training photos of the chosen labels that still exist

This is ridge regression with sample weights, exactly. A_P is measured anew, as importance is for methods that have one;
it is kept beside the sums, so that tasks learned later, forgetting and merging respect it.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from factlearn.errors import RunError
from factlearn.files import atomic_directory, write_json
from factlearn.learning.problem import problem_class
from factlearn.learning.resolving import (
    check_out,
    closed_form_of,
    feature_tensors,
    labelled_learner,
    reopened,
    solve_stage,
)
from factlearn.learning.results import load_model
from factlearn.learning.runs import Run
from factlearn.lifelong.sums import Sums
from factlearn.progress import say


def weigh(run: Run, source: Sequence[str] | Path | None, out: Path) -> Run:
    """A copy of a run whose outputs are solved with more weight on named facts or classes (`strategy.weight`).

    Raises:
        RunError: if nothing is named, or no photo of theirs exists any more.
    """
    check_out(out)
    strategy = closed_form_of(run, "adapting")
    if source is None or isinstance(source, Path):
        raise RunError("Ridge weights labelled photos; name facts with --facts FILE, or classes with --class NAME.")
    problem = problem_class(run.config).of_run(run, load_model(run))
    numbers = set(problem.numbers_of(source))
    finished = run.finished_stages()
    learned = len(run.stage(finished)["tasks"])
    changed = run.images.gone | run.images.edited
    strategy.protected = Sums()
    gone = 0
    for task in range(learned):
        photos = problem.labelled_photos(task)
        rows = [row for row, (path, number) in enumerate(photos) if number in numbers and path not in changed]
        gone += sum(number in numbers for _, number in photos) - len(rows)
        if rows:
            strategy.protect(labelled_learner(problem, task, rows, learned))
    if not strategy.protected.count:
        raise RunError(f"None of the learned photos of {', '.join(source)} exists any more; restore some.")
    if gone:
        say(f"{gone} photos to protect are gone or edited; only the others are weighted.")
    features = feature_tensors(run)
    with atomic_directory(out) as folder:
        ignored = shutil.ignore_patterns("checkpoint", "usage.safetensors")
        shutil.copytree(run.folder, folder, dirs_exist_ok=True, ignore=ignored)
        fresh = Run(folder, run.config)
        about = {key: value for key, value in run.stage(finished).items() if key == "nearest_mean"}
        shutil.rmtree(fresh.stage_folder(finished))
        solve_stage(fresh, reopened(fresh, features), strategy, finished, learned, about)
        adapted = {"run": str(run.folder), "stage": finished, "source": str(source)}
        write_json(folder / "run.json", {**run.description(), "adapted": adapted})
    return Run.open(out)
