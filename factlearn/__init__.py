"""Learn facts from images, task after task, without forgetting, and search them by triplet text."""

from factlearn.facts import Fact, FactQuery

__version__ = "0.1.0"

__all__ = ["Fact", "FactQuery", "__version__"]
