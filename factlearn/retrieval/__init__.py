"""The fact index: images found by triplet text, with wildcards."""

from factlearn.retrieval.index import FactIndex, Hit

__all__ = ["FactIndex", "Hit"]
