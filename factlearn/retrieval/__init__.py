"""The fact index: images found by triplet text, with wildcards."""

from factlearn.retrieval.hits import Hit, ShownFact
from factlearn.retrieval.index import FactIndex
from factlearn.retrieval.store import Version

__all__ = ["FactIndex", "Hit", "ShownFact", "Version"]
