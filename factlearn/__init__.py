"""Learn facts from images, task after task, without forgetting, and search them by triplet text.

Everything below is imported on first use, so that `import factlearn` is instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from factlearn.facts import Fact, FactQuery
    from factlearn.learning.additions import learn_data
    from factlearn.learning.runs import load_run
    from factlearn.learning.training import train
    from factlearn.lifelong.importance import estimate
    from factlearn.retrieval.index import FactIndex

__version__ = "0.2.0"
__all__ = ["Fact", "FactIndex", "FactQuery", "__version__", "estimate", "learn_data", "load_run", "train"]

_PLACES = {
    "Fact": "facts",
    "FactIndex": "retrieval.index",
    "FactQuery": "facts",
    "estimate": "lifelong.importance",
    "learn_data": "learning.additions",
    "load_run": "learning.runs",
    "train": "learning.training",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'factlearn' has no attribute {name!r}")
    return getattr(import_module(f"factlearn.{_PLACES[name]}"), name)
