"""Requests whose cells all tests of the paper's experiments share."""

import pytest
import yaml

from factlearn.config import shipped
from factlearn.experiments.paper import request as asking
from factlearn.experiments.paper.request import Request


@pytest.fixture(scope="package")
def place(tmp_path_factory):
    """Where the cells are kept."""
    return tmp_path_factory.mktemp("cells")


@pytest.fixture
def ask(sports_data, place, cache):
    """A request for an experiment on facts."""

    def make(**changes):
        return Request(seeds=changes.pop("seeds", 1), config_path=sports_data, out=place, **changes)

    return make


@pytest.fixture
def ask_classes(place, cache, monkeypatch, tmp_path):
    """A request for an experiment on classes; every config is the permuted digits', small and for one epoch."""
    raw = yaml.safe_load(shipped("classify/permuted.yaml").read_text())
    raw["training"]["epochs"] = 1
    raw["model"]["hidden"] = [32]
    raw["data"]["count"] = 2
    path = tmp_path / "permuted.yaml"
    path.write_text(yaml.safe_dump(raw))
    monkeypatch.setattr(asking, "shipped", lambda name: path)

    def make(**changes):
        return Request(seeds=changes.pop("seeds", 1), out=changes.pop("out", place), **changes)

    return make
