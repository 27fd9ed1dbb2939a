"""What a run does, as one YAML file: every choice with its default, checked before anything starts.

`learn: facts` (the default) or `learn: classes` decides which of the two schemas a file is checked against.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationInfo, field_validator, model_validator

from factlearn.config import Section, dump_yaml, located, parse_as, read_config
from factlearn.data.registry import ClassData, FactData
from factlearn.data.tasks import TasksConfig
from factlearn.errors import ConfigError, FactError
from factlearn.facts import FactQuery, read_patterns
from factlearn.language import LanguageConfig
from factlearn.lifelong.config import MethodConfig
from factlearn.lifelong.registry import METHODS, StrategyConfig
from factlearn.models.config import ClassifierConfig, FactModelConfig, ModelConfig
from factlearn.models.precision import Precision


class TrainingConfig(Section):
    """How a task is learned: stochastic gradient descent, as in the paper."""

    epochs: int = Field(300, ge=1)
    """Passes over a task's training images."""
    batch_size: int = Field(35, ge=1)
    """Images per step of SGD."""
    learning_rate: float = Field(0.01, gt=0)
    """Learning rate of SGD."""
    head_rate: float = Field(1.0, gt=0)
    """Learning rate of the fully connected layers, as a multiple of `learning_rate`."""
    momentum: float = Field(0.9, ge=0, lt=1)
    """Momentum of SGD."""
    weight_decay: float = Field(0.0, ge=0)
    """Weight decay of SGD."""
    schedule: Literal["constant", "cosine", "step"] = "constant"
    """How the rate decays within a task: not at all, along a cosine, or tenfold after each of `step_epochs`."""
    step_epochs: tuple[int, ...] = ()
    """Epochs after which the rate is divided by ten (schedule: step)."""
    warmup_steps: int = Field(0, ge=0)
    """Steps at the start of a task during which the rate rises from zero."""
    clip_norm: float | None = Field(None, gt=0)
    """Clip the gradient norm to this; no clipping if null."""
    flip: bool = False
    """Mirror half of the images."""
    precision: Precision = "float32"
    """Precision of the forward and backward pass; weights, penalty, importance and evaluation stay float32. `auto` uses
    bfloat16 only if the device has instructions for it."""
    compile: bool = False
    """Compile the layers that learn with `torch.compile`: slow to start, faster on large networks; needs a C++ compiler
    on CPUs."""
    zoom: tuple[Annotated[float, Field(gt=0.3, lt=3)], ...] = ()
    """Zoom factors to draw from for each image, in addition to 1."""
    checkpoint_epochs: int = Field(1, ge=1)
    """Epochs between checkpoints, from which --resume continues."""


class EvaluationConfig(Section):
    """How the test images are evaluated after each task."""

    batch_size: int = Field(128, ge=1)
    """Images embedded per batch."""


class FactEvaluationConfig(EvaluationConfig):
    """What is measured after each task."""

    subsets: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Named groups of facts whose MAP to report: a list of facts or patterns such as `<person, *, tennis>`, or a text
    file of them."""

    @field_validator("subsets", mode="before")
    @classmethod
    def _files_read(cls, subsets: Any, info: ValidationInfo) -> Any:
        if not isinstance(subsets, Mapping):
            return subsets
        return {
            name: _patterns(read_patterns, located(facts, info)) if isinstance(facts, str) else facts
            for name, facts in subsets.items()
        }

    @field_validator("subsets")
    @classmethod
    def _facts_parse(cls, subsets: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for facts in subsets.values():
            for fact in facts:
                _patterns(FactQuery.parse, fact)
        return subsets


def _patterns(read: Any, text: Any) -> Any:
    try:
        return read(text)
    except FactError as error:
        raise ValueError(str(error)) from error


class RunConfig(Section):
    """What all runs share."""

    learn: str
    """What is learned: `facts` or `classes`."""
    seed: int = Field(0, ge=0)
    """Seed of every random choice: tasks, initial weights, image order."""
    device: str = "auto"
    """`auto` (a GPU if there is one), `cpu` or `cuda`."""
    scale: str = "full"
    """Which of the file's `scales` to apply; `full` leaves the file as it is."""
    data: Any
    """The source of the labelled images."""
    model: ModelConfig = ModelConfig()
    """The network."""
    training: TrainingConfig = TrainingConfig()
    """How a task is learned."""
    strategy: StrategyConfig = Field(default={"name": "finetune"}, validate_default=True)  # type: ignore[assignment]
    """The lifelong method, and its settings."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """What is measured after each task."""
    tensorboard: bool = False
    """Write TensorBoard logs."""

    @model_validator(mode="after")
    def _fits_what_is_learned(self) -> "RunConfig":
        method = METHODS.find(self.strategy.name)
        if self.learn not in method.problems:
            raise ValueError(f"strategy: {method.title} does not learn {self.learn}; choose another strategy")
        return self

    def to_yaml(self) -> str:
        """The config as YAML, every default written out."""
        return dump_yaml(self)

    def changed(self, **sections: Any) -> "RunConfig":
        """The config with whole sections replaced, such as `strategy={"name": "si"}` or `seed=1`."""
        return parse_config({**yaml.safe_load(self.to_yaml()), **sections}, "with changes")


class FactsConfig(RunConfig):
    """A run that learns facts."""

    learn: Literal["facts"] = "facts"
    data: FactData = Field(default={"source": "emoji"}, validate_default=True)  # type: ignore[assignment]
    language: LanguageConfig = LanguageConfig()
    """The word vectors of the facts."""
    tasks: TasksConfig = TasksConfig()
    """How the facts are split into tasks."""
    model: FactModelConfig = FactModelConfig()
    evaluation: FactEvaluationConfig = FactEvaluationConfig()

    @field_validator("strategy")
    @classmethod
    def _importance_names_facts(cls, strategy: MethodConfig) -> MethodConfig:
        for source in strategy.importance_sources():
            for fact in source if isinstance(source, tuple) else ():
                try:
                    FactQuery.parse(fact)
                except FactError as error:
                    raise ValueError(f"importance: {error}") from error
        return strategy


class ClassesConfig(RunConfig):
    """A run that learns to classify."""

    learn: Literal["classes"] = "classes"
    data: ClassData = Field(default={"source": "emoji8"}, validate_default=True)  # type: ignore[assignment]
    model: ClassifierConfig = ClassifierConfig()


SCHEMAS: dict[str, type[RunConfig]] = {"facts": FactsConfig, "classes": ClassesConfig}


def load_config(path: Path | str, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a YAML config and apply overrides such as `training.epochs=3`.

    Raises:
        ConfigError: naming the file and every key that is wrong.
    """
    return parse_config(read_config(path, overrides), Path(path))


def parse_config(raw: Mapping[str, Any], where: Path | str) -> RunConfig:
    """Check plain values against the schema of what they learn."""
    learn = raw.get("learn", "facts")
    if not isinstance(learn, str) or learn not in SCHEMAS:
        raise ConfigError(f"The config {where} is not valid: learn: choose facts or classes, not {learn!r}.")
    return parse_as(SCHEMAS[learn], raw, where)
