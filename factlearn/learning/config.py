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


class TrainingConfig(Section):
    """Stochastic gradient descent, as the paper does it."""

    epochs: int = Field(300, ge=1)
    """Passes over a task's training images."""
    batch_size: int = Field(35, ge=1)
    """Images per step of SGD."""
    learning_rate: float = Field(0.01, gt=0)
    """The step size of SGD."""
    head_rate: float = Field(1.0, gt=0)
    """The fully connected layers learn at this multiple of the learning rate."""
    momentum: float = Field(0.9, ge=0, lt=1)
    """Momentum of SGD."""
    weight_decay: float = Field(0.0, ge=0)
    """Weight decay of SGD."""
    schedule: Literal["constant", "cosine", "step"] = "constant"
    """How the rate falls within a task: not at all, along a cosine, or to a tenth after each of `step_epochs`."""
    step_epochs: tuple[int, ...] = ()
    """Epochs after which the rate falls to a tenth (schedule: step)."""
    warmup_steps: int = Field(0, ge=0)
    """Steps at the beginning of a task during which the rate rises from zero."""
    clip_norm: float | None = Field(None, gt=0)
    """Largest norm of the gradients; unlimited if not given."""
    flip: bool = False
    """Mirror half of the images."""
    precision: Literal["float32", "bf16"] = "float32"
    """Of the forward and backward pass. bf16 is faster where the processor has it; weights, the penalty, importance and
    everything that is measured stay float32."""
    compile: bool = False
    """Compile the learning part with `torch.compile`: slow to start, faster on large networks; on CPUs it needs a C++
    compiler."""
    zoom: tuple[Annotated[float, Field(gt=0.3, lt=3)], ...] = ()
    """Draw each image's scale from these as well as 1."""
    checkpoint_epochs: int = Field(1, ge=1)
    """Epochs between two checkpoints that --resume can continue from."""


class EvaluationConfig(Section):
    """How images are looked at after each task."""

    batch_size: int = Field(128, ge=1)
    """Images embedded at once."""


class FactEvaluationConfig(EvaluationConfig):
    """What is measured after each task."""

    subsets: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Named groups of facts: a list of facts or patterns such as `<person, *, tennis>`, or a text file of them."""

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
    """What every run has, whatever it learns."""

    learn: str
    """What is learned: `facts` or `classes`."""
    seed: int = Field(0, ge=0)
    """Of every random choice: tasks, initial weights, order of images."""
    device: str = "auto"
    """`auto` is a GPU if there is one; or `cpu`, `cuda`."""
    scale: str = "full"
    """Which group of the file's `scales` was put in; `full` is the file as it is."""
    data: Any
    """Where the labelled images come from."""
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
    """The space the facts live in."""
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
