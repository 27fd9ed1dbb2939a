"""The fact index: images found by triplet text, with wildcards; the stores that hold it are in `stores.py`."""

from factlearn.retrieval.about import Version
from factlearn.retrieval.hits import Hit, ShownFact
from factlearn.retrieval.index import FactIndex
from factlearn.retrieval.sentences import Reading, read
from factlearn.retrieval.stores import STORES, Store, store, store_at

__all__ = ["STORES", "FactIndex", "Hit", "Reading", "ShownFact", "Store", "Version", "read", "store", "store_at"]
