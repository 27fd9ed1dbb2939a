"""Finding the learning rate and lambda without looking at any old task's data.

The rule, the paper's made explicit ("the largest value that allows an acceptable performance on the new task"):

1. A fifth of the training images of each fact or class is held out; test images are never looked at.
2. Learning rate: the first task alone is learned with each rate; the best score on its own held-out images wins.
3. Lambda: the second task is learned after the first with each lambda, from the largest down. The first whose score on
   the *second* task's held-out images is at least `accept` times that of lambda 0 is taken. What became of the first
   task is not looked at: its data would be gone by then.

Every trial is a run below one folder, so that tuning can be interrupted and resumed.
"""

import csv
import io
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from factlearn.data.registry import open_classes, open_facts
from factlearn.data.samples import FactDataset
from factlearn.data.tasks import TaskSplit, make_tasks
from factlearn.errors import ConfigError
from factlearn.facts import Fact
from factlearn.files import atomic_directory, atomic_write, write_json
from factlearn.learning.config import FactsConfig, RunConfig
from factlearn.learning.runs import Run
from factlearn.learning.seeds import derived_seed
from factlearn.learning.training import train
from factlearn.progress import say

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 6.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
RATE_FACTORS = (0.3, 1.0, 3.0)
HELD_OUT = 0.2


@dataclass(frozen=True)
class Trial:
    """One value that was tried, and its score on the held-out images of the task it was tried on."""

    what: str
    value: float
    score: float | None
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
        accept: the share of the new task's score without any penalty that is still acceptable.

    Raises:
        ConfigError: if there is nothing to tune, or a value makes no sense.
    """
    tried = list(rates) or [config.training.learning_rate * factor for factor in RATE_FACTORS]
    if config.strategy.name == "joint":
        raise ConfigError("Joint learns everything at once and has nothing to tune; choose another strategy.")
    if not 0 < accept <= 1 or min([*tried, *strengths]) <= 0:
        raise ConfigError("Learning rates and lambdas must be above 0, and --accept between 0 and 1.")
    held = held_out(config, out)
    trials = []
    for rate in tried:
        run = _trial(_with_rate(held, rate, {"name": "finetune"}), out / f"rate-{rate:g}", 1)
        trials.append(Trial("learning rate", rate, _newest(run), True))
    best = max(trials, key=lambda trial: trial.score or 0.0).value
    strength, reference = None, None
    if config.strategy.strength is not None:
        strength, reference, more = _tune_strength(held, best, sorted(strengths, reverse=True), accept, out)
        trials += more
    tuning = Tuning(best, strength, reference, tuple(trials))
    write_json(out / "tuning.json", asdict(tuning))
    return tuning


def _tune_strength(
    held: RunConfig, rate: float, strengths: Sequence[float], accept: float, out: Path
) -> tuple[float | None, float | None, list[Trial]]:
    """The largest acceptable lambda, the score without one, and what was tried."""
    plain = held.strategy.model_dump(mode="json", by_alias=True)
    free = _with_rate(held, rate, {**plain, "lambda": 0.0})
    place = out / f"rate-{rate:g}-{held.strategy.name}"
    first = _trial(free, place / "first", 1)
    reference = _newest(_second(first, free, place / "lambda-0"))
    trials = [Trial("lambda", 0.0, reference, True)]
    for value in strengths:
        run = _second(first, _with_rate(held, rate, {**plain, "lambda": value}), place / f"lambda-{value:g}")
        found = _newest(run)
        enough = (found or 0.0) >= accept * (reference or 0.0)
        trials.append(Trial("lambda", value, found, enough))
        if enough:
            return value, reference, trials
    return None, reference, trials


def _trial(config: RunConfig, folder: Path, stages: int) -> Run:
    """The run in the folder with this many stages, learned or resumed where needed."""
    if (folder / "config.yaml").is_file():
        run = Run.open(folder)
        if run.config == config:
            return run if run.finished_stages() >= stages else train(config, folder, resume=True, stop_after=stages)
        shutil.rmtree(folder)
    say(f"Trial: {folder}")
    return train(config, folder, stop_after=stages)


def _second(first: Run, config: RunConfig, folder: Path) -> Run:
    """Continue from the first task with another lambda, which the first task did not depend on."""
    if not (folder / "config.yaml").is_file() or Run.open(folder).config != config:
        with atomic_directory(folder) as copy:
            shutil.copytree(first.folder, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("checkpoint"))
            with atomic_write(copy / "config.yaml") as stream:
                stream.write(config.to_yaml())
    return _trial(config, folder, 2)


def _newest(run: Run) -> float | None:
    """The newest task on its own held-out images; nothing else is looked at."""
    result = run.result()
    return result.course(result.learned[-1][-1])[-1]


def _with_rate(config: RunConfig, rate: float, strategy: dict[str, Any]) -> RunConfig:
    training = {**config.training.model_dump(mode="json"), "learning_rate": rate}
    return config.changed(training=training, strategy=strategy)


def held_out(config: RunConfig, out: Path, count: int = 2) -> RunConfig:
    """The config over the first tasks' training images alone, a fifth of each fact or class held out as tests."""
    hold = _held_out_facts if isinstance(config, FactsConfig) else _held_out_classes
    changes = hold(config, out, count)  # type: ignore[arg-type]
    return config.changed(**changes, evaluation={"batch_size": config.evaluation.batch_size})


def _held_out_facts(config: FactsConfig, out: Path, count: int) -> dict[str, Any]:
    dataset = open_facts(config.data, config.seed)
    language = config.language.open(dataset.facts, dataset.aliases)
    tasks = make_tasks(config.tasks, dataset, language, config.seed)
    _check_two(len(tasks.tasks))
    first = TaskSplit(tasks.method, tasks.tasks[:count], tasks.details)
    facts = {fact for task in first.tasks for fact in task.facts}
    manifest = (out / "held-out.csv").resolve()
    text = held_out_manifest(dataset.of_split("train").of_facts(facts), config.seed)
    if not manifest.is_file() or manifest.read_text(encoding="utf-8") != text:
        with atomic_write(manifest) as stream:
            stream.write(text)
    first.save(out / "tasks.json")
    section = config.language.model_dump(mode="json")
    on_error = getattr(config.data, "on_error", "refuse")
    return {
        "data": {"source": "manifest", "manifest": str(manifest), "on_error": on_error},
        "language": {**section, "aliases": {**dataset.aliases, **section["aliases"]}},
        "tasks": {"method": "file", "file": str((out / "tasks.json").resolve())},
    }


def _held_out_classes(config: RunConfig, out: Path, count: int) -> dict[str, Any]:
    """As folders of links, one folder per task, side and class."""
    sequence = open_classes(config.data, config.seed)
    _check_two(len(sequence.tasks))
    if sequence.row_length is not None:
        raise ConfigError(f"{sequence.name} are rows of numbers; tuning holds out image files.")
    root = (out / "held-out").resolve()
    generator = np.random.default_rng(derived_seed(config.seed, "held out"))
    with atomic_directory(root) as folder:
        for task in sequence.tasks[:count]:
            for label, name in enumerate(task.classes):
                paths = task.train.of_class(label).paths  # type: ignore[union-attr]
                for place, (path, side) in enumerate(zip(paths, _sides(len(paths), generator), strict=True)):
                    link = folder / task.name / side / quote(name, safe=" ") / f"{place:05d}{path.suffix}"
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(path.resolve())
    return {"data": {"source": "folder", "root": str(root), "tasks": [task.name for task in sequence.tasks[:count]]}}


def _check_two(tasks: int) -> None:
    if tasks < 2:
        raise ConfigError("Tuning learns a second task after a first; the config has one.")


def _sides(count: int, generator: np.random.Generator) -> list[str]:
    """Which of some images to hold out: a fifth, at least one if there are two."""
    aside = max(1, round(HELD_OUT * count)) if count > 1 else 0
    held = set(generator.permutation(count)[:aside].tolist())
    return ["test" if place in held else "train" for place in range(count)]


def held_out_manifest(train: FactDataset, seed: int) -> str:
    """The training images as a manifest, of each fact a fifth (at least one, if it has two) as test images."""
    shown: dict[Path, list[Fact]] = {}
    for sample in train.samples:
        shown.setdefault(sample.path.resolve(), []).extend(sample.facts)
    by_fact: dict[Fact, list[Path]] = {}
    for path, facts in ((path, facts) for path, facts in shown.items() if facts):
        by_fact.setdefault(facts[0], []).append(path)  # a photo of several facts is on one side for all of them
    generator = np.random.default_rng(derived_seed(seed, "held out"))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("path", "split", "subject", "predicate", "object"))
    for fact in sorted(by_fact):
        paths = sorted(by_fact[fact])
        for path, side in zip(paths, _sides(len(paths), generator), strict=True):
            rows = ([*each.units, "", ""][:3] for each in dict.fromkeys(shown[path]))
            writer.writerows([(str(path), side, *units) for units in rows])
    return stream.getvalue()
