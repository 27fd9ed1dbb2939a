"""FineTune: the baseline that forgets."""

from typing import Literal

from factlearn.lifelong.config import MethodConfig
from factlearn.lifelong.registry import method
from factlearn.lifelong.strategy import Strategy


class FineTuneConfig(MethodConfig):
    """FineTune has no settings."""

    name: Literal["finetune"] = "finetune"


@method(
    title="FineTune",
    summary="learns each task in turn and does nothing against forgetting",
    config=FineTuneConfig,
)
class FineTune(Strategy):
    """Does nothing in any hook."""
