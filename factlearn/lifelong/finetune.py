"""FineTune: learn each task in turn and do nothing about forgetting."""

from factlearn.lifelong.strategy import Strategy


class FineTune(Strategy):
    """The baseline that forgets."""
