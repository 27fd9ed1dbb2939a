"""Finding the learning rate and lambda without looking at any old task's data.

The rule, the paper's made explicit ("the largest value that allows an acceptable performance on the new task"):

1. A fifth of the training images of each fact is held out; test images are never looked at.
2. Learning rate: the first task alone is learned with each rate; the best MAP on its own held-out images wins.
3. Lambda: the second task is learned after the first with each lambda, from the largest down. The first whose MAP on
   the *second* task's held-out images is at least `accept` times that of lambda 0 is taken. What became of the first
   task is not looked at: its data would be gone by then.

Every trial is a run below one folder, so that tuning can be interrupted and goes on.
"""

import csv
import io
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from factlearn.config import RunConfig
from factlearn.data.samples import FactDataset
from factlearn.data.tasks import TaskSplit
from factlearn.errors import ConfigError
from factlearn.experiments.paper.cells import variant
from factlearn.facts import Fact
from factlearn.files import atomic_directory, atomic_write, write_json
from factlearn.learning.assembly import make_tasks, open_dataset, open_language
from factlearn.learning.runs import Run
from factlearn.learning.training import derived_seed, train
from factlearn.progress import say

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 6.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
RATE_FACTORS = (0.3, 1.0, 3.0)
HELD_OUT = 0.2


@dataclass(frozen=True)
class Trial:
    """One value that was tried, and the MAP on the held-out images of the task it was tried on."""

    what: str
    value: float
    map: float | None
    acceptable: bool


@dataclass(frozen=True)
class Tuning:
    """What was tried and what was chosen; None where the method has no lambda, or none was acceptable."""

    learning_rate: float
    strength: float | None
    reference: float | None
    trials: tuple[Trial, ...]

    def overrides(self) -> list[str]:
        """The choice as `--set` takes it."""
        rate = [f"training.learning_rate={self.learning_rate:g}"]
        return rate + ([] if self.strength is None else [f"strategy.lambda={self.strength:g}"])


def tune(
    config: RunConfig,
    out: Path,
    *,
    rates: Sequence[float] = (),
    strengths: Sequence[float] = STRENGTHS,
    accept: float = 0.95,
) -> Tuning:
    """Choose the learning rate and lambda of a config by the rule above.

    Args:
        config: its first two tasks are used.
        out: where the trials are kept.
        rates: learning rates to try; the config's own, a third of it and three times it if not given.
        strengths: values of lambda to try, in any order.
        accept: the share of the new task's MAP without any penalty that is still acceptable.

    Raises:
        ConfigError: if there is nothing to tune, or a value makes no sense.
    """
    tried = list(rates) or [config.training.learning_rate * factor for factor in RATE_FACTORS]
    if config.strategy.name == "joint":
        raise ConfigError("Joint learns everything at once and has nothing to tune; choose another strategy.")
    if not 0 < accept <= 1 or min([*tried, *strengths]) <= 0:
        raise ConfigError("Learning rates and lambdas must be above 0, and --accept between 0 and 1.")
    held = _held_out(config, out)
    trials = []
    for rate in tried:
        run = _trial(_with_rate(held, rate, {"name": "finetune"}), out / f"rate-{rate:g}", 1)
        trials.append(Trial("learning rate", rate, _map_of_newest(run), True))
    best = max(trials, key=lambda trial: trial.map or 0.0).value
    strength, reference = None, None
    if hasattr(config.strategy, "lambda_"):
        strength, reference, more = _tune_strength(held, best, sorted(strengths, reverse=True), accept, out)
        trials += more
    tuning = Tuning(best, strength, reference, tuple(trials))
    write_json(out / "tuning.json", asdict(tuning))
    return tuning


def _tune_strength(
    held: RunConfig, rate: float, strengths: Sequence[float], accept: float, out: Path
) -> tuple[float | None, float | None, list[Trial]]:
    """The largest acceptable lambda, the MAP without one, and what was tried."""
    plain = held.strategy.model_dump(mode="json", by_alias=True)
    free = _with_rate(held, rate, {**plain, "lambda": 0.0})
    place = out / f"rate-{rate:g}-{held.strategy.name}"
    first = _trial(free, place / "first", 1)
    reference = _map_of_newest(_second(first, free, place / "lambda-0"))
    trials = [Trial("lambda", 0.0, reference, True)]
    for value in strengths:
        run = _second(first, _with_rate(held, rate, {**plain, "lambda": value}), place / f"lambda-{value:g}")
        found = _map_of_newest(run)
        enough = (found or 0.0) >= accept * (reference or 0.0)
        trials.append(Trial("lambda", value, found, enough))
        if enough:
            return value, reference, trials
    return None, reference, trials


def _trial(config: RunConfig, folder: Path, stages: int) -> Run:
    """The run in the folder with this many stages, learned or gone on with where needed."""
    if (folder / "config.yaml").is_file():
        run = Run.open(folder)
        if run.config == config:
            return run if run.finished_stages() >= stages else train(config, folder, resume=True, stop_after=stages)
        shutil.rmtree(folder)
    say(f"Trial: {folder}")
    return train(config, folder, stop_after=stages)


def _second(first: Run, config: RunConfig, folder: Path) -> Run:
    """Go on from the first task with another lambda, which the first task did not depend on."""
    if not (folder / "config.yaml").is_file() or Run.open(folder).config != config:
        with atomic_directory(folder) as copy:
            shutil.copytree(first.folder, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("checkpoint"))
            with atomic_write(copy / "config.yaml") as stream:
                stream.write(config.to_yaml())
    return _trial(config, folder, 2)


def _map_of_newest(run: Run) -> float | None:
    """MAP of the newest task on its own held-out images; nothing else is looked at."""
    stage = run.stage(run.finished_stages())
    found = stage["evaluation"]["exact"]["tasks"][stage["tasks"][-1]]["map"]
    return None if found is None else float(found)


def _with_rate(config: RunConfig, rate: float, strategy: dict[str, Any]) -> RunConfig:
    training = {**config.training.model_dump(mode="json"), "learning_rate": rate}
    return variant(config, training=training, strategy=strategy)


def _held_out(config: RunConfig, out: Path) -> RunConfig:
    """The config over the first two tasks' training images alone, a fifth of each fact's held out as test images."""
    dataset = open_dataset(config.data)
    tasks = make_tasks(config.tasks, dataset, open_language(config.language, dataset), config.seed)
    if len(tasks.tasks) < 2:
        raise ConfigError("Tuning learns a second task after a first; set tasks.count to at least 2.")
    two = TaskSplit(tasks.method, tasks.tasks[:2], tasks.details)
    facts = {fact for task in two.tasks for fact in task.facts}
    manifest = (out / "held-out.csv").resolve()
    text = held_out_manifest(dataset.of_split("train").of_facts(facts), config.seed)
    if not manifest.is_file() or manifest.read_text(encoding="utf-8") != text:
        with atomic_write(manifest) as stream:
            stream.write(text)
    two.save(out / "tasks.json")
    language = config.language.model_dump(mode="json")
    return variant(
        config,
        data={"source": "manifest", "manifest": str(manifest), "on_error": config.data.on_error},
        language={**language, "aliases": {**dataset.aliases, **language["aliases"]}},
        tasks={"method": "file", "file": str((out / "tasks.json").resolve())},
        evaluation={"batch_size": config.evaluation.batch_size},
    )


def held_out_manifest(train: FactDataset, seed: int) -> str:
    """The training images as a manifest, of each fact a fifth (at least one, if it has two) as test images."""
    by_fact: dict[Fact, list[Path]] = {}
    for sample in train.samples:
        if sample.fact is not None:
            by_fact.setdefault(sample.fact, []).append(sample.path.resolve())
    generator = np.random.default_rng(derived_seed(seed, "held out"))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("path", "split", "subject", "predicate", "object"))
    for fact in sorted(by_fact):
        paths = sorted(set(by_fact[fact]))
        aside = max(1, round(HELD_OUT * len(paths))) if len(paths) > 1 else 0
        held = set(generator.permutation(len(paths))[:aside].tolist())
        units = [*fact.units, "", ""][:3]
        writer.writerows([(str(path), "test" if i in held else "train", *units) for i, path in enumerate(paths)])
    return stream.getvalue()


def tuning_table(tuning: Tuning) -> Table:
    """Every trial, and what was chosen."""
    table = Table(title="MAP on the new task's held-out images")
    for column in ("tried", "value", "MAP", "acceptable"):
        table.add_column(column, justify="left" if column == "tried" else "right")
    for trial in tuning.trials:
        chosen = trial.value == (tuning.learning_rate if trial.what == "learning rate" else tuning.strength)
        score = "-" if trial.map is None else f"{trial.map:.3f}"
        verdict = "chosen" if chosen else "" if trial.what == "learning rate" else "yes" if trial.acceptable else "no"
        table.add_row(trial.what, f"{trial.value:g}", score, verdict)
    return table
