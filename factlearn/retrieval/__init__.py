"""The fact index: images found by triplet text, with wildcards."""

from factlearn.retrieval.backend import Version
from factlearn.retrieval.hits import Hit, ShownFact
from factlearn.retrieval.index import FactIndex

__all__ = ["FactIndex", "Hit", "ShownFact", "Version"]
