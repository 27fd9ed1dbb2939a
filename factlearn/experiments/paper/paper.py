"""The paper's numbers, read from `paper.yaml`."""

from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml


@lru_cache(maxsize=1)
def _numbers() -> dict[str, Any]:
    text = files("factlearn.experiments.paper").joinpath("paper.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def paper(table: str, key: str) -> Any:
    """One part of one table, such as `paper("table-4", "splits")`."""
    return _numbers()[table][key]
