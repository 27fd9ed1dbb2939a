"""What a classification run does, as one YAML file; what it shares with facts is in `factlearn/config.py`.

Two keys of a file are read before all others and are not part of the run:

    scales     named groups of keys that `--set scale=NAME` puts in place of the file's own, so that the paper's
               experiments run on small data by changing one value
    methods    settings by a method's name, such as {ewc: {lambda: 100}}, for when `strategy.name` chooses it
"""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from factlearn.config import LearningConfig, ModelConfig, apply_overrides, parse_as, read_config
from factlearn.errors import ConfigError
from factlearn.lifelong.config import Section


class ClassDataConfig(Section):
    """Which tasks, in which order."""

    source: Literal["emoji8", "paper", "folder", "permuted-digits", "split-digits"] = "emoji8"
    tasks: tuple[str, ...] | None = None
    """Tasks by name, in the order to learn them; all that the source has if not given."""
    root: Path | None = None
    """The folder that holds one folder a task (source: folder), or one a dataset (source: paper)."""
    classes: int | None = Field(None, ge=2)
    """At most so many classes a task, evenly spread; all if not given."""
    test_share: float = Field(0.3, gt=0, lt=1)
    """Of a class's images, where a task's folder is not split into train and test."""
    vendors: tuple[str, ...] | None = None
    """Only these vendors' pictures (source: emoji8)."""
    count: int = Field(5, ge=1, le=100)
    """How many tasks (source: permuted-digits, split-digits)."""

    @field_validator("root")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        """A run must find its data again from any folder."""
        return None if path is None else path.expanduser().resolve()

    @model_validator(mode="after")
    def _root_named(self) -> "ClassDataConfig":
        if self.source in ("folder", "paper") and self.root is None:
            raise ValueError("root: name the folder of the data, here or with --set data.root=FOLDER")
        return self


class ClassifierConfig(ModelConfig):
    """The network under the heads."""

    architecture: Literal["alexnet", "vgg16", "perceptron"] = "alexnet"
    weights: str | None = None
    """An asset's name such as alexnet-imagenet-conv, a safetensors file, or null to start from random weights."""
    heads: Literal["own", "shared"] = "own"
    """One head a task, or one for all tasks, which then have the same classes, as permuted digits do."""

    @model_validator(mode="after")
    def _weights_fit(self) -> "ClassifierConfig":
        if self.architecture == "perceptron" and (self.weights is not None or self.frozen != "none"):
            raise ValueError("weights: a perceptron has no pretrained weights; set weights to null and frozen to none")
        if self.architecture != "perceptron" and self.weights is None and self.frozen != "none":
            raise ValueError(
                f"frozen: there are no weights to freeze; set weights, e.g. {self.architecture}-imagenet-conv"
            )
        if self.architecture == "alexnet" and self.image_size < 64:
            raise ValueError("image_size: AlexNet needs images of at least 64 pixels")
        return self


class ClassifyConfig(LearningConfig):
    """A whole run that learns to classify."""

    scale: str = "full"
    """Which group of the file's `scales` was put in; `full` is the file as it is."""
    data: ClassDataConfig = ClassDataConfig()
    model: ClassifierConfig = ClassifierConfig()

    @model_validator(mode="after")
    def _learns_classes(self) -> "ClassifyConfig":
        if self.strategy.name == "ridge":
            raise ValueError("strategy: ridge solves for vectors, not for classes; choose another strategy")
        return self


def load_classify_config(path: Path | str, overrides: Sequence[str] = ()) -> ClassifyConfig:
    """Read a YAML config, put in the scale it asks for, and apply overrides such as `strategy.lambda=3`.

    Raises:
        ConfigError: naming the file and every key that is wrong.
    """
    raw = read_config(path)
    scales = raw.pop("scales", None) or {}
    asked = _with(raw, overrides)
    scale = str(asked.get("scale", "full"))
    if scale != "full":
        if not isinstance(scales, dict) or scale not in scales:
            known = ", ".join(["full", *(scales if isinstance(scales, dict) else ())])
            raise ConfigError(f"The config {path} has no scale {scale!r}; its scales are {known}.")
        raw = _merged(raw, scales[scale])
    methods = raw.pop("methods", None) or {}
    strategy, chosen = raw.get("strategy"), asked.get("strategy")
    name = chosen.get("name") if isinstance(chosen, dict) else None
    if isinstance(methods, dict) and isinstance(name, str):
        own = strategy if isinstance(strategy, dict) and strategy.get("name") == name else {}
        raw["strategy"] = {"name": name, **(methods.get(name) or {}), **own}
    return parse_as(ClassifyConfig, _with(raw, overrides), str(path))


def _with(raw: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    changed = copy.deepcopy(raw)
    apply_overrides(changed, overrides)
    return changed


def _merged(base: Any, changes: Any) -> Any:
    """Keys of `changes` in place of those of `base`; a section with another `source` or `name` starts empty."""
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    for kind in ("source", "name", "architecture"):
        if kind in changes and changes[kind] != base.get(kind):
            return changes
    return {key: _merged(base.get(key), changes[key]) if key in changes else base[key] for key in {**base, **changes}}
