"""Learning facts as scores, one head per task, read out as vectors by their posterior (`model.readout: posterior`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from factlearn.data.tasks import Task
from factlearn.facts import Fact
from factlearn.language import LanguageSpace
from factlearn.learning.classes import ClassStage
from factlearn.learning.config import FactsConfig
from factlearn.learning.facts import FactProblem
from factlearn.learning.problem import Judgement, Preparation, Problem, StageData
from factlearn.learning.runs import Run
from factlearn.lifelong.strategy import Learner
from factlearn.models.inputs import open_inputs, shared_in_order
from factlearn.models.network import TwoPartModel
from factlearn.models.posterior import PosteriorEmbedder, build_posterior
from factlearn.models.preprocess import View


class PosteriorProblem(FactProblem):
    """Facts in tasks, scored by one head per task."""

    model: PosteriorEmbedder

    @staticmethod
    def build(
        config: FactsConfig, tasks: Sequence[Task], language: LanguageSpace, *, pretrained: bool = True
    ) -> PosteriorEmbedder:
        """The network with one head per task, and the word vectors of all facts; a unit that a fact lacks is zero."""
        vectors, _ = language.embed([fact for task in tasks for fact in task.facts])
        sizes = [len(task.facts) for task in tasks]
        return build_posterior(config.model, sizes, torch.from_numpy(vectors), pretrained=pretrained)

    @classmethod
    def network(cls, run: Run, stage: int | None = None, *, pretrained: bool = False) -> TwoPartModel[Any]:
        """The network of a run as it was at a stage; it knows the facts of the tasks learned by then."""
        model = super().network(run, stage, pretrained=pretrained)
        if stage is not None:
            model.suffix.open = len(run.stage(stage)["tasks"])
        return model

    def load_learned(self, state: dict[str, Tensor]) -> None:
        """Take the weights that a stage left; the facts are those of today."""
        super().load_learned({**state, "units": self.model.suffix.units})

    def reorder(self, names: Sequence[str]) -> None:
        """Heads are in the order of the tasks, so that another order is refused."""
        Problem.reorder(self, names)

    def _labelled(self, rows: Sequence[tuple[Path, Fact]], stage: Sequence[int], views: Sequence[View]) -> StageData:
        """Images of the facts of a stage, each with the number of its fact in its task."""
        numbers = self._places(stage)
        places = {fact: (task, place) for task in stage for place, fact in enumerate(self.split.tasks[task].facts)}
        tasks, labels = np.array([places[fact] for _, fact in rows], np.int64).reshape(-1, 2).T
        inputs = open_inputs(self.model, [path for path, _ in rows], views=views)
        device = self.model.device
        return ClassStage(
            inputs,
            torch.from_numpy(tasks.copy()).to(device),
            torch.from_numpy(labels.copy()).to(device),
            len(views),
            torch.tensor([numbers[fact] for _, fact in rows]),
            together=True,
        )

    def prepare(self, number: int, stage: Sequence[int], data: StageData) -> Preparation:
        """Open the stage's heads."""
        suffix = self.model.suffix
        suffix.fit(shared_in_order(data.inputs, self.config.evaluation.batch_size))
        suffix.answers = "scores"
        head = suffix.learn_heads(stage)
        about = super().prepare(number, stage, data).learner
        return Preparation({**about, "output": "scores", "head": head, "measured": suffix.of_task(stage[-1])})

    def importance_learner(self, learner: Learner, names: Sequence[str] | None) -> Learner:
        """Importance of the scores of all facts known."""
        suffix = self.model.suffix
        suffix.heads.requires_grad_(False)
        suffix.answers = "scores"
        learner.output = "scores"
        return learner

    def solving_learner(self, learner: Learner, learned: int) -> Learner:
        """Open the heads of the first tasks."""
        self.model.suffix.open = learned
        return super().solving_learner(learner, learned)

    def judge(self, learned: Sequence[int]) -> Judgement:
        """Embed the test images by the posterior and measure MAP."""
        self.model.suffix.answers = "vectors"
        return super().judge(learned)
