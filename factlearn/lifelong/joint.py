"""Joint: learn all tasks at once, the reference that lifelong learning cannot pass."""

from collections.abc import Sequence

from factlearn.lifelong.strategy import Strategy, T


class Joint(Strategy):
    """Violates the lifelong setting on purpose: it sees every task's data together."""

    def stages(self, tasks: Sequence[T]) -> list[list[T]]:
        """One stage of all tasks."""
        return [list(tasks)]
