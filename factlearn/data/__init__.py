"""Sources of pictures and facts, one module each; all give a `FactDataset`."""

from factlearn.data.samples import SPLITS, FactDataset, Sample

__all__ = ["SPLITS", "FactDataset", "Sample"]
