"""What became of each task of a run, of facts or of classes: what the plots of both show."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from factlearn.classification.results import ClassResult
from factlearn.evaluation.forgetting import Forgetting
from factlearn.experiments.naming import at_once
from factlearn.facts import Relevance
from factlearn.learning.results import RunResult

AnyResult = RunResult | ClassResult


@dataclass(frozen=True)
class Course:
    """A measure of every task after each stage.

    Attributes:
        tasks: their names, in order.
        learned: the names of those learned after each stage.
        matrix: a row a stage, a column a task; None before it was learned.
        whole: the measure over everything after each stage.
        lost: what was forgotten; None where all was learned at once.
        measure: what is measured.
        whole_title: what everything is.
        subsets: the measure of further groups after each stage, by name.
    """

    tasks: list[str]
    learned: list[list[str]]
    matrix: list[list[float | None]]
    whole: list[float]
    lost: Forgetting | None
    measure: str
    whole_title: str
    subsets: dict[str, list[float | None]] = field(default_factory=dict)

    @property
    def at_once(self) -> bool:
        """Whether several tasks were learned as one, as Joint does."""
        return at_once(self)

    @property
    def moments(self) -> list[str]:
        """What to call each stage: the task it ended with."""
        return ["all at once" if self.at_once else names[-1] for names in self.learned]

    def points(self, group: str | None) -> list[tuple[int, float]]:
        """How many tasks were learned, and the measure of a task or subset then; None stands for everything."""
        values: list[float | None]
        if group is None:
            values = list(self.whole)
        elif group in self.tasks:
            values = [row[self.tasks.index(group)] for row in self.matrix]
        else:
            values = self.subsets.get(group, [None] * len(self.learned))
        return [(len(names), value) for names, value in zip(self.learned, values, strict=True) if value is not None]


def course_of(result: AnyResult) -> Course:
    """A run's course: MAP of facts with exact relevance, or accuracy of classes with each task's own head."""
    if isinstance(result, ClassResult):
        learned = [result.tasks[: len(stage)] for stage in result.predictions]
        rows = [[value for value in row if value is not None] for row in result.accuracy]
        whole = [sum(row) / len(row) for row in rows]
        title = "Average of the tasks learned"
        return Course(result.tasks, learned, result.accuracy, whole, result.forgetting, "accuracy", title)
    subsets = {
        name: [found.map if (found := e.exact.subsets.get(name)) else None for e in result.evaluations]
        for name in result.run.config.evaluation.subsets
    }
    return Course(
        tasks=[task.name for task in result.tasks.tasks],
        learned=result.learned,
        matrix=result.matrix(Relevance.EXACT),
        whole=[evaluation.map_all or 0.0 for evaluation in result.evaluations],
        lost=result.forgetting(Relevance.EXACT),
        measure="MAP",
        whole_title="All test images",
        subsets=subsets,
    )


def courses_of(results: Mapping[str, AnyResult]) -> dict[str, Course]:
    """The course of each method's run."""
    return {label: course_of(result) for label, result in results.items()}
