"""Reading a run directory: its results, its network at any stage, and predictions."""

from pathlib import Path
from typing import Any

from factlearn.errors import RunError
from factlearn.evaluation.results import RunResult
from factlearn.learning.problem import problem_class
from factlearn.learning.runs import Run, load_tensors
from factlearn.models.network import TwoPartModel
from factlearn.progress import progress


def load_result(run: Run | Path | str, *, fresh: bool = False) -> RunResult:
    """The stored evaluation of every finished stage, or a new one from its network and the images if `fresh`.

    Raises:
        RunError: if no stage is finished; if `fresh`, also if no test photo remains or a stage was pruned.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    stages = range(1, run.check_stage() + 1)
    learned = [list(run.stage(stage)["tasks"]) for stage in stages]
    if fresh:
        evaluations = [_evaluated_again(run, stage, names) for stage, names in zip(stages, learned, strict=True)]
    else:
        kind = problem_class(run.config).evaluation
        try:
            evaluations = [kind.from_json(run.stage(stage)["evaluation"]) for stage in stages]
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"The evaluations of {run.folder} are damaged ({error}); use --fresh.") from error
    return RunResult(run, run.task_names(), learned, evaluations)


def load_model(run: Run | Path | str, stage: int | None = None) -> TwoPartModel[Any]:
    """The network after a finished stage, by default the last."""
    run = run if isinstance(run, Run) else Run.open(run)
    stage = run.check_stage(stage)
    try:
        model = problem_class(run.config).network(run, stage)
        model.prefix.load_state_dict(load_tensors(run.folder / "frozen.safetensors"))
        model.suffix.load_state_dict(load_tensors(run.stage_folder(stage) / "model.safetensors"))
    except (RuntimeError, MemoryError) as error:
        raise RunError(f"The weights of {run.folder} do not fit its config ({str(error)[:200]}).") from error
    return model.eval()


def _evaluated_again(run: Run, stage: int, learned: list[str]) -> Any:
    problem = problem_class(run.config).of_run(run, load_model(run, stage))
    problem.images = run.images.before(run.stage(stage).get("added", ()))
    with progress(f"test images with stage {stage}", 1) as advance:
        judged = problem.judge([problem.tasks.index(name) for name in learned])
        advance(1)
    return judged.evaluation
