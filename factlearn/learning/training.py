"""Learning a sequence of tasks: start a run, resume it, use it again, learn its next tasks."""

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from factlearn import processes
from factlearn.data.checking import listed, problems_of
from factlearn.errors import FactlearnError, ImageError, ProcessLost, RunError, StoppedError
from factlearn.learning.config import RunConfig, load_config
from factlearn.learning.engine import make_fabric
from factlearn.learning.loop import learn_stage
from factlearn.learning.problem import Problem, problem_class
from factlearn.learning.provenance import check_unchanged
from factlearn.learning.pruning import check_keep, prune
from factlearn.learning.runs import Run, load_tensors, save_tensors
from factlearn.learning.stopping import Stopping, stopping
from factlearn.lifelong.allocator import keep_freed_memory
from factlearn.lifelong.registry import make_strategy
from factlearn.lifelong.strategy import Strategy
from factlearn.models.random_layers import share_random_layers
from factlearn.progress import say


def train(
    config: RunConfig | Path | str,
    out: Path | str,
    *,
    resume: bool = False,
    stop_after: int | None = None,
    keep: int | None = None,
    accept_changes: bool = False,
) -> Run:
    """Train on a config's tasks, one after the other, and write a run directory.

    Within `factlearn.learning.engine.together` several processes do so, all of which call this; the first one writes.

    Args:
        config: of facts or of classes, or a YAML file.
        out: the run directory to make.
        resume: continue an interrupted run; the numbers are those of a run never interrupted.
        stop_after: the number of stages to stop after; all if not given.
        keep: the number of stages whose networks are kept; all if not given. Results of all stages are kept.
        accept_changes: resume although config or code have changed since, and record it.

    Raises:
        StoppedError: after a checkpoint, if the process got a SIGTERM.
        FactlearnError: if the config cannot be carried out, before anything is written where possible.
    """
    out = Path(out)
    if not isinstance(config, RunConfig):
        config = load_config(config)
    keep_freed_memory()
    if resume and Run.open(out).begun:
        run = Run.open(out)
        run = check_unchanged(run, config, how_to_add=how_to_add(run), accept=accept_changes)
        problem = problem_class(config).resumed(run)
    else:
        problem = problem_class(config).plan(config)
        if resume and processes.first():  # it was killed before it began
            shutil.rmtree(out)
        begun = _begin(out, config, problem) if processes.first() else None
        processes.wait()
        run = begun or Run.open(out)
    try:
        learn_tasks(run, problem, stop_after=stop_after, keep=keep)
    except (ProcessLost, StoppedError):
        raise
    except FactlearnError as error:
        if not resume and not run.metrics():
            shutil.rmtree(run.folder, ignore_errors=True)  # nothing was learned; the next try may use the same place
        if isinstance(error, ImageError):
            raise _all_unreadable(problem, error) from error
        raise
    return run


def _begin(out: Path, config: RunConfig, problem: Problem) -> Run:
    """A new run directory."""
    with Run.beginning(out, config) as run:
        about = problem.save(run)
        save_tensors(dict(problem.model.prefix.state_dict()), run.folder / "frozen.safetensors")
        run.describe(data_fingerprint=problem.fingerprint, threads=torch.get_num_threads(), **about)
    return run


def _all_unreadable(problem: Problem, first: ImageError) -> ImageError:
    """The first image that could not be read, as an error that names all of them and the way out."""
    paths = dict.fromkeys(path for task in range(len(problem.tasks)) for path in problem.training_photos(task))
    problems = list(dict.fromkeys(filter(None, [*problems_of(list(paths)), str(first)])))
    skip = ", or set data.on_error to skip" if "on_error" in type(problem.config.data).model_fields else ""
    count = f"{len(problems)} images" if len(problems) > 1 else "An image"
    return ImageError(f"{count} cannot be read; restore or remove what is listed{skip}:{listed(problems)}")


def train_or_reuse(config: RunConfig, folder: Path) -> Run:
    """The run in the folder: reused if finished, resumed if interrupted, trained from scratch otherwise."""
    if not (folder / "config.yaml").is_file():
        return train(config, folder)
    if Run.open(folder).config != config:
        say(f"{folder} was made with another config and is learned again.")
        shutil.rmtree(folder)
        return train(config, folder)
    try:
        return train(config, folder, resume=True)
    except RunError as error:
        raise RunError(f"{error} Remove {folder} to start it again.") from error


def learn_more(run: Run, names: Sequence[str] = (), *, count: int | None = None, keep: int | None = None) -> Run:
    """Learn further tasks of a run.

    Args:
        names: the tasks to learn, in this order; if none are named, those that are left.
        count: at most so many of them.
        keep: the number of stages whose networks are kept; all if not given.

    Raises:
        RunError: if a task is unknown or learned already, or none is left.
    """
    keep_freed_memory()
    finished = run.check_stage()
    tasks, learned = run.task_names(), list(run.stage(finished)["tasks"])
    left = [name for name in tasks if name not in learned]
    for name in names:
        if name not in tasks:
            raise RunError(
                f"{run.folder} has no task {name!r}; its tasks are {', '.join(tasks)}; "
                f"teach it something new with `{how_to_add(run)}`."
            )
        if name in learned:
            raise RunError(f"{run.folder} has learned {name!r} already; left are {', '.join(left) or 'none'}.")
    chosen = (list(dict.fromkeys(names)) or left)[:count]
    if not chosen:
        raise RunError(f"{run.folder} has learned all its tasks; teach it more with `{how_to_add(run)}`.")
    problem = problem_class(run.config).resumed(run)
    order = [name for name in tasks if name in learned] + chosen
    problem.reorder(order + [name for name in tasks if name not in order])
    processes.wait()  # all have read the tasks in their old order
    if processes.first():
        problem.save_tasks(run)
    learn_tasks(run, problem, stop_after=finished + len(chosen), keep=keep)
    return run


def how_to_continue(run: Run) -> str:
    """The command that learns the tasks that are left, or adds one where none is."""
    left = set(run.task_names()).difference(run.stage(run.check_stage())["tasks"])
    return f"factlearn learn {run.folder}" if left else how_to_add(run)


def how_to_add(run: Run) -> str:
    """The command that adds a task to a run."""
    new = "NEW.csv" if run.config.learn == "facts" else "FOLDER"
    return f"factlearn learn {run.folder} --data {new}"


def learn_tasks(run: Run, problem: Problem, *, stop_after: int | None = None, keep: int | None = None) -> None:
    """Learn the stages that are not finished yet, of the first `stop_after` if that is given.

    Args:
        keep: the number of stages whose networks are kept; all if not given.
    """
    if keep is not None:
        check_keep(keep)
    with stopping() as stop, run.writing() if processes.first() else nullcontext():
        _learn_tasks(run, problem, stop, stop_after, keep)


def _learn_tasks(run: Run, problem: Problem, stop: Stopping, stop_after: int | None, keep: int | None) -> None:
    fabric = make_fabric(run.config)
    strategy = make_strategy(run.config.strategy)
    stages = _stages(run, problem, strategy)
    until = len(stages) if stop_after is None else min(stop_after, len(stages))
    finished = run.finished_stages()
    if finished >= until:
        say(f"Nothing to do: {run.folder} has learned {finished} of {len(stages)} stages already.")
        return
    model = problem.model
    share_random_layers(model.suffix)
    problem.check_photos(stages[finished:until])
    if finished:
        folder = run.stage_folder(finished)
        problem.load_learned(load_tensors(folder / "model.safetensors"))
        strategy.load_state(load_tensors(folder / "strategy.safetensors"))
        say(f"{finished} of {len(stages)} stages are finished already.")
    model.to(fabric.device)
    for number, stage in enumerate(stages[finished:until], finished + 1):
        started = time.monotonic()
        data = problem.stage_data(stage)
        say(f"Stage {number} of {len(stages)}: {problem.describe_stage(stage, data)}.")
        prepared = problem.prepare(number, stage, data)
        learner, memory = learn_stage(run, fabric, problem, strategy, number, stage, data, prepared, stop)
        learned = [task for group in stages[:number] for task in group]
        learner.protected = problem.protected_learner(learner, learned)
        strategy.after_task(learner)
        if number == len(stages):
            strategy.after_sequence(learner)
        finish_stage(run, problem, strategy, number, learned, started, memory, prepared.record)
        processes.wait()  # the others read what the first has written
        if keep is not None and processes.first():
            prune(run, keep)


def _stages(run: Run, problem: Problem, strategy: Strategy) -> list[list[int]]:
    """The tasks of each stage: as they were learned, then as the method learns those that are left."""
    stages: list[list[int]] = []
    for number in range(1, run.finished_stages() + 1):
        learned = [problem.tasks.index(name) for name in run.stage(number)["tasks"]]
        stages.append([task for task in learned if not any(task in stage for stage in stages)])
    done = {task for stage in stages for task in stage}
    left = [task for task in range(len(problem.tasks)) if task not in done]
    return stages + (strategy.stages(left) if left else [])


def finish_stage(
    run: Run,
    problem: Problem,
    strategy: Strategy,
    number: int,
    learned: Sequence[int],
    started: float,
    memory: int,
    about: Mapping[str, Any],
) -> None:
    """Evaluate the network after a stage and save it.

    Args:
        learned: all tasks that it knows.
        started: when the stage began, by `time.monotonic`.
        memory: the bytes that the strategy held while learning.
        about: more for the stage's record.
    """
    judged = problem.judge(learned)
    processes.wait()  # all have read what the run says of earlier stages
    run.log(event="evaluation", stage=number, **judged.evaluation.headline())
    model = problem.model
    files = {"model": dict(model.suffix.state_dict()), "strategy": strategy.state(), "outputs": judged.outputs}
    record = {
        "tasks": [problem.tasks[task] for task in learned],
        "metric_lines": run.metric_lines(),
        "seconds": time.monotonic() - started,
        "model_fingerprint": model.fingerprint(),
        "memory": {
            "model_bytes": problem.model_bytes(learned),
            "training_bytes": memory,
            "stored_bytes": strategy.memory().stored_bytes,
        },
        "evaluation": judged.evaluation.to_json(),
        "calibration": judged.calibration,
        **about,
    }
    if problem.images.added:
        record["added"] = list(problem.images.added)
    run.finish_stage(number, files, record)
    say(f"After stage {number}: {judged.evaluation.sentence()}.")
