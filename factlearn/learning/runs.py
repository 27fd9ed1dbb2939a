"""The run directory: config, learned models and metrics.

    config.yaml            the whole config, defaults written out
    run.json               versions, seed, fingerprints of data and language
    tasks.json             the tasks in their order
    data/                  the photos it was started with, see `records.py`
    added/NAME/            the photos of a task that was added later
    language/              the language space
    frozen.safetensors     the weights of the frozen prefix, once
    metrics.jsonl          one line per training epoch and evaluation
    stages/1/              after the first stage (usually one task):
        model.safetensors        the learned part of the network
        strategy.safetensors     what the strategy remembers
        outputs.safetensors      what the network says of the test images: vectors, or predictions
        stage.json               written last: a stage without it is not finished
    checkpoint/            the middle of a stage: model, optimizer, position; replaced whole

Every file is written atomically. A run that was killed resumes from its last checkpoint. Of several processes that
learn together, the first one alone writes.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml

from factlearn import processes
from factlearn.config import load_yaml
from factlearn.data.tasks import TaskSplit
from factlearn.errors import RunError
from factlearn.files import atomic_directory, atomic_write, remove_leftovers, write_json
from factlearn.language import LanguageSpace
from factlearn.learning.config import RunConfig, parse_config
from factlearn.learning.storage import PRUNABLE, load_tensors, read_sealed, save_tensors, write_sealed
from factlearn.progress import say

__all__ = ["PRUNABLE", "Checkpoint", "Run", "load_run", "load_tensors", "save_tensors"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from factlearn.evaluation.results import RunResult
    from factlearn.learning.collection import RunImages
    from factlearn.learning.prediction import Guess
    from factlearn.models.network import TwoPartModel

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """The middle of a stage: this many of its epochs are done, and of the next one, what `middle` says.

    Attributes:
        middle: of an epoch that was interrupted, the losses so far and the state of the random numbers; else empty.
    """

    stage: int
    epoch: int
    metric_lines: int
    module: dict[str, "Tensor"]
    optimizer: dict[str, "Tensor"]
    strategy: dict[str, "Tensor"]
    middle: dict[str, "Tensor"] = field(default_factory=dict)


class Run:
    """A run directory, opened: of facts or of classes, as its config says."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self.folder = folder
        self.config = config

    @classmethod
    def create(cls, folder: Path, config: RunConfig) -> Self:
        """Start a run in a new or empty folder."""
        if folder.exists() and not folder.is_dir():
            raise RunError(f"{folder} is a file; give a folder for the run.")
        if (folder / "config.yaml").exists():
            raise RunError(f"{folder} holds a run already; continue it with --resume, or choose another --out.")
        remove_leftovers(folder)
        if folder.exists() and any(folder.iterdir()):
            raise RunError(f"{folder} is not empty and holds no run; choose another --out.")
        run = cls(folder, config)
        with atomic_write(folder / "config.yaml") as stream:
            stream.write(config.to_yaml())
        return run

    @classmethod
    @contextmanager
    def beginning(cls, folder: Path, config: RunConfig) -> Iterator[Self]:
        """Start a run and write what belongs to it; if the block fails, nothing of it is left."""
        run = cls.create(folder, config)
        try:
            yield run
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @property
    def begun(self) -> bool:
        """Whether everything that learning starts from was written."""
        return (self.folder / "run.json").is_file()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only process that writes to the run; what killed ones left half-written is deleted.

        Raises:
            RunError: if another process is learning this run.
        """
        import fcntl

        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise RunError(f"{self.folder} is being learned by another process; wait for it to end.") from None
        try:
            for folder in (self.folder, self.folder / "stages"):
                remove_leftovers(folder)
            yield
        finally:
            os.close(descriptor)

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open a run that exists."""
        folder = Path(folder)
        path = folder / "config.yaml"
        if not path.is_file():
            raise RunError(f"{folder} holds no run (no config.yaml); train one with `factlearn train`.")
        try:
            raw = load_yaml(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise RunError(f"{path} is not readable ({' '.join(str(error).split())}).") from error
        return cls(folder, parse_config(raw if isinstance(raw, dict) else {}, path))

    @classmethod
    def of_facts(cls, folder: Path | str) -> Self:
        """Open a run that learns facts; only those can be indexed."""
        return cls.open(folder).check_facts()

    def check_facts(self) -> Self:
        """Refuse a run that learned something else than facts.

        Raises:
            RunError: if it did.
        """
        if self.config.learn != "facts":
            raise RunError(f"{self.folder} learned {self.config.learn}; fact vectors need a run that learned facts.")
        return self

    def task_names(self) -> list[str]:
        """The names of all tasks, in order."""
        try:
            return [str(task["name"]) for task in self.tasks_json()["tasks"]]
        except (KeyError, TypeError) as error:
            raise RunError(f"{self.folder / 'tasks.json'} is damaged ({error}); train the run again.") from error

    def tasks_json(self) -> dict[str, Any]:
        """The tasks as they were recorded."""
        return read_sealed(self.folder / "tasks.json")

    def tasks(self) -> TaskSplit:
        """The tasks of a run that learns facts."""
        return TaskSplit.load(self.folder / "tasks.json", disjoint=False)

    def language(self) -> LanguageSpace:
        """The language space of a run that learns facts."""
        return LanguageSpace.load(self.folder / "language")

    def addition_folder(self, name: str) -> Path:
        """Where the photos of an added task are recorded."""
        return self.folder / "added" / name

    def additions(self) -> list[str]:
        """The names of the tasks that were added to the run, in the order in which they were added."""
        found = [name for name in self.task_names() if os.path.isfile(self.addition_folder(name) / "about.json")]
        return sorted(found, key=lambda name: int(read_sealed(self.addition_folder(name) / "about.json")["number"]))

    @cached_property
    def images(self) -> "RunImages":
        """The run's images, task by task, and which of them are gone or edited."""
        from factlearn.learning.collection import open_images

        return open_images(self)

    @property
    def data(self) -> Any:
        """All images of the run, those of added tasks included: a `FactDataset` or a `ClassSequence`.

        Photos that no longer exist are listed too; `images.gone` names them.
        """
        return self.images.whole

    # What it gives back

    def result(self, *, fresh: bool = False) -> "RunResult":
        """The run's evaluation after each stage; see `load_result`."""
        from factlearn.learning.results import load_result

        return load_result(self, fresh=fresh)

    def model(self, stage: int | None = None) -> "TwoPartModel[Any]":
        """The network after a finished stage, by default the last."""
        from factlearn.learning.results import load_model

        return load_model(self, stage)

    def embed(self, images: Path | str | Sequence[Path | str], stage: int | None = None) -> "NDArray[np.float32]":
        """Fact vectors [N, 3, D] of image files, or [3, D] of a single one."""
        from factlearn.models.inference import embed_images

        self.check_facts()
        if isinstance(images, Path | str):
            vector: NDArray[np.float32] = self.embed([images], stage)[0]
            return vector
        return embed_images(self.model(stage), [Path(image) for image in images])[0]

    def predict(self, images: "Sequence[Path | str]", **options: Any) -> "list[Guess]":
        """The facts or classes that images show, see `factlearn.learning.prediction.predict`."""
        from factlearn.learning.prediction import predict

        return predict(self, [Path(image) for image in images], **options)

    # What it records

    def describe(self, **facts: Any) -> None:
        """Record versions, seed and fingerprints."""
        from factlearn.learning.provenance import code_fingerprint, versions

        write_json(
            self.folder / "run.json",
            {"format": FORMAT, "seed": self.config.seed, "versions": versions(), "code": code_fingerprint(), **facts},
        )

    def description(self) -> dict[str, Any]:
        """What `describe` recorded."""
        return read_sealed(self.folder / "run.json")

    def check_data(self, fingerprint: str) -> None:
        """Refuse to continue with data that is no longer what the run was started with."""
        if self.description().get("data_fingerprint") != fingerprint:
            raise RunError(f"The data of {self.folder} has changed since it was trained; restore it or train again.")

    # Stages

    def stage_folder(self, stage: int) -> Path:
        """Where stage `stage` (from 1) is kept."""
        return self.folder / "stages" / str(stage)

    def check_stage(self, stage: int | None = None) -> int:
        """A finished stage, by default the last.

        Raises:
            RunError: if there is no such stage.
        """
        finished = self.finished_stages()
        chosen = finished if stage is None else stage
        if not finished:
            raise RunError(f"{self.folder} has no finished stage yet; train it with --resume.")
        if not 1 <= chosen <= finished:
            raise RunError(f"{self.folder} has {finished} finished stages; there is no stage {chosen}.")
        return chosen

    def finished_stages(self) -> int:
        """How many stages are finished."""
        stage = 0
        while (self.stage_folder(stage + 1) / "stage.json").is_file():
            stage += 1
        return stage

    def stage(self, stage: int) -> dict[str, Any]:
        """What was recorded of a finished stage."""
        file = self.stage_folder(stage) / "stage.json"
        record = read_sealed(file)
        if not isinstance(record.get("tasks"), list):
            raise RunError(f"{file} is damaged (it names no tasks); train the run again.")
        return record

    def finish_stage(
        self,
        stage: int,
        files: dict[str, dict[str, "Tensor"]],
        record: dict[str, Any],
    ) -> None:
        """Keep what a stage left, one safetensors file per name; the folder appears whole."""
        if not processes.first():
            return
        with atomic_directory(self.stage_folder(stage)) as folder:
            for name, tensors in files.items():
                save_tensors(tensors, folder / f"{name}.safetensors")
            write_sealed(folder / "stage.json", record)

    def tasks_at(self, stage: int | None) -> int:
        """How many tasks the run had at a stage, learned or not; those it has today if None."""
        if stage is None:
            return len(self.task_names())
        return len(self.task_names()) - len(self.additions()) + len(self.stage(stage).get("added", ()))

    def outputs(self, stage: int) -> dict[str, "Tensor"]:
        """The outputs of a finished stage's network on the test images."""
        return load_tensors(self.stage_folder(stage) / "outputs.safetensors")

    # Metrics

    @property
    def metrics_path(self) -> Path:
        """One JSON object per line."""
        return self.folder / "metrics.jsonl"

    def metrics(self) -> list[dict[str, Any]]:
        """Everything recorded so far."""
        if not self.metrics_path.exists():
            return []
        *lines, _torn = self.metrics_path.read_text(encoding="utf-8", errors="replace").split("\n")
        try:
            return [json.loads(line) for line in lines]
        except (ValueError, RecursionError) as error:
            raise RunError(f"{self.metrics_path} is damaged ({error}); restore it from a backup.") from error

    def log(self, **values: Any) -> None:
        """Add a line to the metrics."""
        if not processes.first():
            return
        with open(self.metrics_path, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(values, allow_nan=False) + "\n")

    def rewind_metrics(self, lines: int) -> None:
        """Drop what was logged after a checkpoint, before resuming from it."""
        if processes.first() and self.metrics_path.exists():
            kept = self.metrics_path.read_text(encoding="utf-8").splitlines(keepends=True)[:lines]
            with atomic_write(self.metrics_path) as stream:
                stream.writelines(kept)

    def lines_before(self, stage: int) -> int:
        """How many lines the metrics had when the stage before this one was finished."""
        return int(self.stage(stage - 1)["metric_lines"]) if stage > 1 else 0

    def metric_lines(self) -> int:
        """How many lines the metrics have."""
        return len(self.metrics_path.read_bytes().splitlines()) if self.metrics_path.exists() else 0

    # Checkpoints

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep the middle of a stage, in place of the one before."""
        if not processes.first():
            return
        with atomic_directory(self.folder / "checkpoint") as folder:
            save_tensors(checkpoint.module, folder / "model.safetensors")
            save_tensors(checkpoint.optimizer, folder / "optimizer.safetensors")
            save_tensors(checkpoint.strategy, folder / "strategy.safetensors")
            if checkpoint.middle:
                save_tensors(checkpoint.middle, folder / "middle.safetensors")
            position = {
                "stage": checkpoint.stage,
                "epoch": checkpoint.epoch,
                "metric_lines": checkpoint.metric_lines,
            }
            write_sealed(folder / "position.json", position)

    def checkpoint_stage(self) -> int | None:
        """The stage that the checkpoint is in the middle of, if there is one that can be read."""
        path = self.folder / "checkpoint" / "position.json"
        try:
            return int(read_sealed(path)["stage"]) if path.is_file() else None
        except (RunError, KeyError, TypeError, ValueError):
            return None

    def checkpoint(self, stage: int) -> Checkpoint | None:
        """The checkpoint in the middle of `stage`, if there is one; one that is damaged counts as none."""
        folder = self.folder / "checkpoint"
        if not folder.is_dir() or self.checkpoint_stage() not in (stage, None):
            return None
        middle = folder / "middle.safetensors"
        try:
            return Checkpoint(
                **read_sealed(folder / "position.json"),
                module=load_tensors(folder / "model.safetensors"),
                optimizer=load_tensors(folder / "optimizer.safetensors"),
                strategy=load_tensors(folder / "strategy.safetensors"),
                middle=load_tensors(middle) if middle.is_file() else {},
            )
        except (RunError, TypeError) as error:
            say(f"The checkpoint cannot be used, stage {stage} starts from its beginning: {error}")
            return None


def load_run(folder: Path | str) -> Run:
    """Open a run directory, of facts or of classes; see `Run` for what it gives back."""
    return Run.open(folder)
