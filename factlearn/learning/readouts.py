"""The other readout of a run in closed form: the sums suffice for both, so that no image is looked at for it again.

By distance the outputs are solved for the facts' word vectors, by posterior for their scores.
"""

import shutil
from pathlib import Path

from factlearn.errors import RunError
from factlearn.files import atomic_directory, atomic_write
from factlearn.learning.config import FactsConfig
from factlearn.learning.resolving import check_out, closed_form_of, feature_tensors, reopened, solve_stage
from factlearn.learning.runs import Run

READOUTS = ("distance", "posterior")


def read_out(run: Run, readout: str, out: Path) -> Run:
    """A copy of a run of facts whose outputs are solved for another readout; it has a single stage: what it knows now.

    Raises:
        RunError: if the run's method keeps no sums, it learned classes, or its readout is this one.
    """
    check_out(out)
    if readout not in READOUTS:
        raise RunError(f"There is no readout {readout!r}; choose distance or posterior.")
    if not isinstance(run.config, FactsConfig):
        raise RunError(f"{run.folder} learned classes; only facts have two readouts.")
    strategy = closed_form_of(run, "another readout")
    if run.config.model.readout == readout:
        raise RunError(f"{run.folder} already uses the readout {readout}.")
    model = {**run.config.model.model_dump(mode="json"), "readout": readout}
    config = run.config.changed(model=model)
    learned = len(run.stage(run.finished_stages())["tasks"])
    features = feature_tensors(run)
    with atomic_directory(out) as folder:
        ignored = shutil.ignore_patterns("checkpoint", "usage.safetensors", "stages", "metrics.jsonl")
        shutil.copytree(run.folder, folder, dirs_exist_ok=True, ignore=ignored)
        with atomic_write(folder / "config.yaml") as stream:
            stream.write(config.to_yaml())
        fresh = Run.open(folder)
        solve_stage(fresh, reopened(fresh, features), strategy, 1, learned)
    return Run.open(out)
