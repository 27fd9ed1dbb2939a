"""Learning facts as scores, one head per task, read out as vectors by their posterior (`model.readout: posterior`)."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from factlearn.data.registry import open_facts
from factlearn.data.tasks import Task, make_tasks
from factlearn.errors import RunError
from factlearn.language import LanguageSpace
from factlearn.learning.classes import ClassStage
from factlearn.learning.collection import RunImages
from factlearn.learning.config import FactsConfig
from factlearn.learning.facts import FactProblem, subset_facts
from factlearn.learning.problem import Judgement, Preparation, StageData, augmentation_views
from factlearn.learning.runs import Run
from factlearn.learning.seeds import seed_initial_weights
from factlearn.lifelong.strategy import Learner
from factlearn.models.inputs import in_order, open_inputs
from factlearn.models.network import TwoPartModel
from factlearn.models.posterior import PosteriorEmbedder, build_posterior


class PosteriorProblem(FactProblem):
    """Facts in tasks, scored by one head per task."""

    model: PosteriorEmbedder  # type: ignore[assignment]

    @classmethod
    def plan(cls, config: Any) -> Self:
        """A new problem from its config."""
        dataset = open_facts(config.data, config.seed)
        language = config.language.open(dataset.facts, dataset.aliases)
        split = make_tasks(config.tasks, dataset, language, config.seed)
        subset_facts(config, dataset)
        seed_initial_weights(config.seed)
        model = build_posterior(config.model, *heads_of(split.tasks, language))
        problem = cls(config, model, language, split)  # type: ignore[arg-type]
        problem.images = RunImages(dataset)
        return problem

    @classmethod
    def of_run(cls, run: Run, model: TwoPartModel[Any]) -> Self:
        """The problem of a run directory."""
        assert isinstance(run.config, FactsConfig)
        assert isinstance(model, PosteriorEmbedder)
        problem = cls(run.config, model, run.language(), run.tasks())  # type: ignore[arg-type]
        problem._run = run
        return problem

    @staticmethod
    def network(run: Run, stage: int | None = None, *, pretrained: bool = False) -> PosteriorEmbedder:  # type: ignore[override]
        """The network of a run with the heads it had at a stage; it knows the facts of the tasks learned by then."""
        tasks = run.tasks().tasks
        if stage is not None:
            later = len(run.additions()) - len(run.stage(stage).get("added", ()))
            tasks = tasks[: len(tasks) - later]
        model = build_posterior(run.config.model, *heads_of(tasks, run.language()), pretrained=pretrained)
        if stage is not None:
            model.suffix.open = len(run.stage(stage)["tasks"])
        return model

    def load_learned(self, state: dict[str, Tensor]) -> None:
        """Take the weights that a stage left; heads of tasks added since keep their initial ones."""
        own = self.model.suffix.state_dict()
        heads = {name: value for name, value in own.items() if name.startswith("heads.") and name not in state}
        super().load_learned({**heads, **state, "units": own["units"]})

    def reorder(self, names: Sequence[str]) -> None:
        """Heads are in the order of the tasks, so that another order is refused."""
        if list(names) != self.tasks:
            raise RunError(f"With the posterior readout tasks are learned in order: {', '.join(self.tasks)}.")

    def stage_data(self, stage: Sequence[int]) -> ClassStage:  # type: ignore[override]
        """The training images of a stage with the number of each one's fact in its task."""
        places = {fact: (task, place) for task in stage for place, fact in enumerate(self.split.tasks[task].facts)}
        samples = self._samples(stage, "train")
        tasks, labels = np.array([places[sample.fact] for sample in samples if sample.fact], np.int64).T
        views = augmentation_views(self.config.training)
        inputs = open_inputs(self.model, [sample.path for sample in samples], views=views)
        device = self.model.device
        return ClassStage(
            inputs,
            torch.from_numpy(tasks.copy()).to(device),
            torch.from_numpy(labels.copy()).to(device),
            len(views),
            together=True,
        )

    def prepare(self, number: int, stage: Sequence[int], data: StageData) -> Preparation:
        """Open the stage's heads."""
        suffix = self.model.suffix
        suffix.fit(in_order(data.inputs, self.config.evaluation.batch_size))
        suffix.answers = "scores"
        head = suffix.learn_heads(stage)
        return Preparation({"output": "scores", "head": head, "measured": suffix.of_task(stage[-1])})

    def importance_learner(self, learner: Learner, names: Sequence[str] | None) -> Learner:
        """Importance of the scores of all facts known."""
        suffix = self.model.suffix
        suffix.heads.requires_grad_(False)
        suffix.answers = "scores"
        learner.output = "scores"
        return learner

    def judge(self, learned: Sequence[int]) -> Judgement:
        """Embed the test images by the posterior and measure MAP."""
        self.model.suffix.answers = "vectors"
        return super().judge(learned)


def heads_of(tasks: Sequence[Task], language: LanguageSpace) -> tuple[list[int], Tensor]:
    """The number of facts of each task, and the word vectors of all; a unit that a fact lacks is zero."""
    vectors, _ = language.embed([fact for task in tasks for fact in task.facts])
    return [len(task.facts) for task in tasks], torch.from_numpy(vectors)
