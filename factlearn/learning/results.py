"""What a run achieved after each stage: the numbers behind `factlearn evaluate`, tables and reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factlearn.data.samples import FactDataset
from factlearn.data.tasks import TaskSplit
from factlearn.errors import RunError
from factlearn.evaluation.facts import Evaluation
from factlearn.evaluation.forgetting import Forgetting, forgetting
from factlearn.facts import Relevance
from factlearn.language import LanguageSpace
from factlearn.learning.assembly import build_embedder, make_preprocess, open_dataset
from factlearn.learning.runs import Run, load_tensors
from factlearn.learning.training import evaluate_run
from factlearn.models.embedder import FactEmbedder
from factlearn.models.inference import embed_images
from factlearn.progress import progress


@dataclass(frozen=True)
class RunResult:
    """A run's evaluations, one a finished stage.

    Attributes:
        tasks: all tasks of the run.
        learned: the names of the tasks learned after each stage.
        evaluations: the metrics after each stage, on the tasks learned so far.
        vectors: the test images' vectors after each stage.
        dataset: the run's dataset, of whose test side the vectors are.
        language: its language space.
    """

    run: Run
    tasks: TaskSplit
    learned: list[list[str]]
    evaluations: list[Evaluation]
    vectors: list[NDArray[np.float32]]
    dataset: FactDataset
    language: LanguageSpace

    @property
    def final(self) -> Evaluation:
        """The metrics at the end of the sequence."""
        return self.evaluations[-1]

    def matrix(self, relevance: Relevance | str) -> list[list[float | None]]:
        """MAP of every task (columns) after each stage (rows); None before a task was learned."""
        return [
            [stage.under(relevance).tasks[task.name].map if task.name in stage.under(relevance).tasks else None
             for task in self.tasks.tasks]
            for stage in self.evaluations
        ]  # fmt: skip

    def forgetting(self, relevance: Relevance | str) -> Forgetting | None:
        """Forgetting over the sequence; None where tasks were not learned one after the other."""
        if [len(names) for names in self.learned] != list(range(1, len(self.learned) + 1)):
            return None
        rows = self.matrix(relevance)
        kept = [column for column in range(len(rows)) if all(row[column] is not None for row in rows[column:])]
        return forgetting([[rows[i][j] for j in kept if j <= i] for i in kept])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values: the final `map_all` first, then what came after each stage."""
        lost = {rule.value: self.forgetting(rule) for rule in Relevance}
        return {
            "run": str(self.run.folder),
            "strategy": self.run.config.strategy.name,
            "map_all": self.final.map_all,
            "map_all_prefix": self.final.map_all_prefix,
            "tasks": [task.name for task in self.tasks.tasks],
            "matrix": {rule.value: self.matrix(rule) for rule in Relevance},
            "forgetting": {rule: None if value is None else value.to_json() for rule, value in lost.items()},
            "stages": [
                {"learned": names, **evaluation.to_json()}
                for names, evaluation in zip(self.learned, self.evaluations, strict=True)
            ],
        }


def load_result(run: Run, *, fresh: bool = False) -> RunResult:
    """Evaluate every finished stage from the vectors it left, or from its model and the images if `fresh`."""
    finished = run.finished_stages()
    if not finished:
        raise RunError(f"{run.folder} has no finished stage yet; train it with --resume.")
    dataset = open_dataset(run.config.data)
    run.check_data(dataset.fingerprint())
    language, tasks = run.language(), run.tasks()
    by_name = {task.name: task for task in tasks.tasks}
    learned = [list(run.stage(stage)["tasks"]) for stage in range(1, finished + 1)]
    vectors = [_vectors(run, stage, dataset, fresh) for stage in range(1, finished + 1)]
    evaluations = [
        evaluate_run(run.config, dataset, language, [by_name[name] for name in names], stage_vectors)
        for names, stage_vectors in zip(learned, vectors, strict=True)
    ]
    return RunResult(run, tasks, learned, evaluations, vectors, dataset, language)


def load_model(run: Run, stage: int | None = None) -> FactEmbedder:
    """The network as a finished stage left it, by default the last."""
    finished = run.finished_stages()
    stage = finished if stage is None else stage
    if not 1 <= stage <= finished:
        raise RunError(f"{run.folder} has {finished} finished stages; there is no stage {stage}.")
    model = build_embedder(run.config.model, run.language().dimension, pretrained=False)
    try:
        model.prefix.load_state_dict(load_tensors(run.folder / "frozen.safetensors"))
        model.suffix.load_state_dict(load_tensors(run.stage_folder(stage) / "model.safetensors"))
    except RuntimeError as error:
        raise RunError(f"The weights of {run.folder} do not fit its config ({str(error).splitlines()[0]}).") from error
    return model.eval()


def _vectors(run: Run, stage: int, dataset: FactDataset, fresh: bool) -> NDArray[np.float32]:
    test: Sequence[Any] = dataset.of_split("test").samples
    if fresh:
        with progress(f"embedding the test images with stage {stage}", len(test)) as advance:
            vectors, _ = embed_images(
                load_model(run, stage),
                [sample.path for sample in test],
                make_preprocess(run.config.model),
                progress=advance,
            )
        return vectors
    stored = load_tensors(run.stage_folder(stage) / "vectors.safetensors")["vectors"].numpy()
    if len(stored) != len(test):
        raise RunError(
            f"Stage {stage} of {run.folder} has {len(stored)} vectors for {len(test)} test images; use --fresh."
        )
    return stored
