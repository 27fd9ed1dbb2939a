"""Forgetting: what learning later tasks did to earlier ones, from the matrix of scores.

`matrix[i][j]` is the score (MAP or accuracy) of task j after task i was learned. Entries above the diagonal,
of tasks not yet learned, are not looked at.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from factlearn.errors import FactlearnError


@dataclass(frozen=True)
class Forgetting:
    """Forgetting and backward transfer at the end of a sequence of T tasks.

    Attributes:
        per_task: for each task but the last, the best score it had before the last task was learned minus
            its final score; negative if it is better than ever.
        average: their mean.
        backward_transfer: the mean, over the same tasks, of the final score minus the score just after
            learning.
        final: the mean final score of all tasks.
    """

    per_task: tuple[float, ...]
    average: float
    backward_transfer: float
    final: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def forgetting(matrix: Sequence[Sequence[float | None]]) -> Forgetting:
    """Measure forgetting from the scores after each task; a single task has forgotten nothing.

    Raises:
        FactlearnError: if there is no task, or the score of a learned task is missing.

    Example:
        >>> forgetting([[0.8], [0.5, 0.9]]).average
        0.30000000000000004
    """
    count = len(matrix)
    if count == 0:
        raise FactlearnError("Forgetting needs the scores of at least one task; there are none.")
    scores = [[_score(matrix, after, task) for task in range(after + 1)] for after in range(count)]
    last = scores[-1]
    lost = tuple(max(scores[i][j] for i in range(j, count - 1)) - last[j] for j in range(count - 1))
    gained = [last[j] - scores[j][j] for j in range(count - 1)]
    return Forgetting(
        per_task=lost,
        average=sum(lost) / len(lost) if lost else 0.0,
        backward_transfer=sum(gained) / len(gained) if gained else 0.0,
        final=sum(last) / count,
    )


def _score(matrix: Sequence[Sequence[float | None]], after: int, task: int) -> float:
    value = matrix[after][task] if task < len(matrix[after]) else None
    if value is None or math.isnan(value):
        raise FactlearnError(f"Task {task} has no score after task {after}; evaluate every task learned so far.")
    return float(value)
