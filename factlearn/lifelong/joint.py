"""Joint: learn all tasks at once, the reference that lifelong learning cannot beat."""

from collections.abc import Sequence
from typing import Literal

from factlearn.lifelong.config import MethodConfig
from factlearn.lifelong.registry import method
from factlearn.lifelong.strategy import Strategy, T


class JointConfig(MethodConfig):
    """Joint has no settings."""

    name: Literal["joint"] = "joint"


@method(
    title="Joint",
    summary="learns all tasks at once from all their images: an upper bound, not a lifelong method",
    config=JointConfig,
)
class Joint(Strategy):
    """Violates the lifelong setting on purpose: it sees every task's data together."""

    def stages(self, tasks: Sequence[T]) -> list[list[T]]:
        """One stage with all tasks."""
        return [list(tasks)]
