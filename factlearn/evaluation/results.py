"""A run's results after each stage, for facts or classes: the numbers behind tables, plots and reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from factlearn.evaluation.forgetting import Forgetting, forgetting

Matrix = list[list[float | None]]


@dataclass(frozen=True)
class RunResult:
    """A run's evaluations, one per finished stage.

    A `rule` is what counts as right: `exact` or `prefix` relevance of facts; for classes `told` or `free`, whether the
    classifier is told which task an image belongs to. The first rule is used where none is given.

    Attributes:
        run: the run directory, a `factlearn.learning.runs.Run`.
        tasks: the names of all tasks of the run, in order.
        learned: the names of the tasks learned after each stage.
        evaluations: the metrics after each stage, on the tasks learned so far.
    """

    run: Any
    tasks: list[str]
    learned: list[list[str]]
    evaluations: list[Any]

    @property
    def final(self) -> Any:
        """The metrics at the end of the sequence: a `FactEvaluation` or a `ClassEvaluation`."""
        return self.evaluations[-1]

    @property
    def measure(self) -> str:
        """What is measured: MAP or accuracy."""
        return str(self.final.measure)

    @property
    def whole_title(self) -> str:
        """What `whole` is measured over, in words."""
        return str(self.final.whole_title)

    @property
    def in_turn(self) -> bool:
        """Whether tasks were learned one after the other."""
        return [len(names) for names in self.learned] == list(range(1, len(self.learned) + 1))

    @property
    def at_once(self) -> bool:
        """Whether several tasks were learned as one, as Joint does."""
        return len(self.learned) == 1 and len(self.learned[0]) > 1

    @property
    def moments(self) -> list[str]:
        """What to call each stage: the task it ended with."""
        return ["all at once" if self.at_once else names[-1] for names in self.learned]

    def matrix(self, rule: str | None = None) -> Matrix:
        """The measure of every task (columns) after each stage (rows); None before a task was learned."""
        rule = rule or self.final.rules[0]
        return [[stage.task(name, rule) for name in self.tasks] for stage in self.evaluations]

    def whole(self, rule: str | None = None) -> list[float | None]:
        """The measure over everything after each stage."""
        rule = rule or self.final.rules[0]
        return [stage.whole(rule) for stage in self.evaluations]

    def course(self, name: str | None) -> list[float | None]:
        """The measure of one task, of one named subset, or of everything (None), after each stage."""
        if name is None:
            return self.whole()
        if name in self.tasks:
            place = self.tasks.index(name)
            return [row[place] for row in self.matrix()]
        return [stage.subsets().get(name) for stage in self.evaluations]

    def forgetting(self, rule: str | None = None) -> Forgetting | None:
        """Forgetting and backward transfer; None where tasks were learned together or their photos are gone."""
        rows, kept = self.matrix(rule), self.followed(rule) if self.in_turn else []
        return forgetting([[rows[i][j] for j in kept if j <= i] for i in kept]) if kept else None

    def followed(self, rule: str | None = None) -> list[int]:
        """The positions of the tasks that could be evaluated after every stage since they were learned."""
        rows = self.matrix(rule)
        return [column for column in range(len(rows)) if all(row[column] is not None for row in rows[column:])]

    def just_learned(self) -> float | None:
        """Mean over tasks of the measure just after each was learned; None where tasks were learned together."""
        diagonal = [value for i, row in enumerate(self.matrix()) if (value := row[i]) is not None]
        return fmean(diagonal) if self.in_turn and diagonal else None

    def forward_transfer(self) -> float | None:
        """How much better the nearest class mean of the features tells a task's classes just before the task is
        learned than at the beginning of the run, over all tasks planned but the first; None for facts."""
        stages = [self.record(number).get("nearest_mean") for number in range(1, len(self.learned) + 1)]
        if not self.in_turn or None in stages:
            return None
        first: Any = stages[0]
        places = [
            (place, name)
            for place, name in enumerate(self.tasks[1 : len(stages)], 1)
            if name in first and name in stages[place]  # type: ignore[operator]
        ]
        if not places:
            return None
        return fmean(stages[place][name] - first[name] for place, name in places)  # type: ignore[index]

    def record(self, stage: int) -> Mapping[str, Any]:
        """What was recorded of a stage (from 1) besides its metrics: seconds, memory."""
        record: Mapping[str, Any] = self.run.stage(stage)
        return record

    @property
    def calibration(self) -> Mapping[str, Any] | None:
        """What the probabilities of the last stage rest on, and how far they are off; None if that is not known."""
        found: Mapping[str, Any] | None = self.record(len(self.learned)).get("calibration")
        return found

    @property
    def seconds(self) -> list[float]:
        """What learning each stage took."""
        return [float(self.record(stage).get("seconds", 0.0)) for stage in range(1, len(self.learned) + 1)]

    @property
    def memory(self) -> list[Mapping[str, int]]:
        """Bytes of the network, of the method while learning and between tasks, after each stage."""
        return [self.record(stage)["memory"] for stage in range(1, len(self.learned) + 1)]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values: the headline of the final evaluation first, then what came after each stage."""
        lost = {rule: self.forgetting(rule) for rule in self.final.rules}
        return {
            "run": str(self.run.folder),
            "learn": self.run.config.learn,
            "strategy": self.run.config.strategy.name,
            **self.final.headline(),
            "tasks": self.tasks,
            "matrix": {rule: self.matrix(rule) for rule in self.final.rules},
            "forgetting": {rule: None if value is None else value.to_json() for rule, value in lost.items()},
            "just_learned": self.just_learned(),
            "forward_transfer": self.forward_transfer(),
            "calibration": self.calibration,
            "memory": [dict(each) for each in self.memory],
            "seconds": self.seconds,
            "stages": [
                {"learned": names, **evaluation.to_json()}
                for names, evaluation in zip(self.learned, self.evaluations, strict=True)
            ],
        }
