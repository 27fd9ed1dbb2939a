"""Sources of labelled images, one module each (see `registry`), and their split into tasks."""

from factlearn.data.samples import SPLITS, FactDataset, Sample

__all__ = ["SPLITS", "FactDataset", "Sample"]
