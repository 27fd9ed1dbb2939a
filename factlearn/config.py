"""What a run does, as one YAML file: every choice with its default, checked before anything starts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from factlearn.errors import ConfigError, FactError
from factlearn.facts import FactQuery
from factlearn.lifelong.config import CONFIGS, FineTuneConfig, Section, StrategyConfig


class DataConfig(Section):
    """Which images and facts."""

    source: Literal["emoji", "manifest"] = "emoji"
    manifest: Path | None = None
    """A CSV, JSONL or Parquet file with path, split, subject, predicate, object (source: manifest)."""
    root: Path | None = None
    """The folder that the manifest's paths start from; its own folder if not given."""
    on_error: Literal["refuse", "skip"] = "refuse"
    """What to do with a manifest row or an image that cannot be used."""
    vendors: tuple[str, ...] | None = None
    """Only these vendors' pictures (source: emoji)."""

    @field_validator("manifest", "root")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        """A run must find its data again from any folder."""
        return None if path is None else path.expanduser().resolve()

    @model_validator(mode="after")
    def _manifest_named(self) -> "DataConfig":
        if self.source == "manifest" and self.manifest is None:
            raise ValueError("manifest: name the file, here or with --set data.manifest=FILE")
        return self


class LanguageConfig(Section):
    """The space the facts live in."""

    vectors: str = "glove-6b-50d"
    """An asset's name, or a word2vec or GloVe file."""
    normalise: bool = True
    centre: bool = False
    """Subtract the mean of the dataset's units."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """Words to use in place of a unit, beside those the dataset brings."""


class TasksConfig(Section):
    """How the facts are split into tasks."""

    method: Literal["random", "agglomerative", "file"] = "random"
    count: int = Field(4, ge=1)
    trials: int = Field(100, ge=1)
    """Random splits drawn, of which the best balanced is kept."""
    linkage: Literal["ward", "complete", "average"] = "ward"
    """The distance between two clusters of facts (method: agglomerative)."""
    file: Path | None = None
    """A split saved by `factlearn split` (method: file)."""
    names: tuple[str, ...] | None = None
    """Names for the tasks in their order."""

    @model_validator(mode="after")
    def _file_named(self) -> "TasksConfig":
        if self.method == "file" and self.file is None:
            raise ValueError("file: name the split that `factlearn split` saved")
        if self.names is not None and self.method != "file" and len(self.names) != self.count:
            raise ValueError(f"names: {len(self.names)} names for {self.count} tasks")
        return self


class ModelConfig(Section):
    """The VGG-16 with its fork; see `factlearn.models.embedder.EmbedderShape`."""

    weights: str | None = "vgg16-imagenet-conv"
    """An asset's name, a safetensors file, or null to start from random weights."""
    image_size: int = Field(224, ge=32, le=1024)
    fit: Literal["crop", "squash"] = "crop"
    frozen: Literal["none", "conv1", "conv2", "conv3", "conv4", "conv5"] = "none"
    """The last convolutional block that does not learn."""
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = (4096, 4096)
    dropout: float = Field(0.5, ge=0, lt=1)
    blocks: int = Field(5, ge=4, le=5)
    """How many of VGG-16's five convolutional blocks are used; the fifth loses the detail of small drawings."""
    standardise: bool = False
    """Standardise the convolutional features by the first task's images; training is then much faster."""
    keep_activations: bool = True
    """Compute a frozen prefix once and keep its activations on disk."""


class TrainingConfig(Section):
    """Stochastic gradient descent, as the paper does it."""

    epochs: int = Field(300, ge=1)
    batch_size: int = Field(35, ge=1)
    learning_rate: float = Field(0.01, gt=0)
    head_rate: float = Field(1.0, gt=0)
    """The fully connected layers learn at this multiple of the learning rate."""
    momentum: float = Field(0.9, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0)
    schedule: Literal["constant", "cosine", "step"] = "constant"
    step_epochs: tuple[int, ...] = ()
    """Epochs after which the rate falls to a tenth (schedule: step)."""
    warmup_steps: int = Field(0, ge=0)
    clip_norm: float | None = Field(None, gt=0)
    flip: bool = False
    """Mirror half of the images."""
    zoom: tuple[Annotated[float, Field(gt=0.3, lt=3)], ...] = ()
    """Draw each image's scale from these as well as 1."""
    checkpoint_epochs: int = Field(1, ge=1)
    """Epochs between two checkpoints that --resume can go on from."""


class MeasuringConfig(Section):
    """How images are looked at after each task."""

    batch_size: int = Field(128, ge=1)


class EvaluationConfig(MeasuringConfig):
    """What is measured after each task."""

    subsets: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Named groups of facts, each a list of facts or patterns such as `<person, *, tennis>`."""

    @field_validator("subsets")
    @classmethod
    def _facts_parse(cls, subsets: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for facts in subsets.values():
            for fact in facts:
                try:
                    FactQuery.parse(fact)
                except FactError as error:
                    raise ValueError(str(error)) from error
        return subsets


class LearningConfig(Section):
    """What every run has, whatever it learns."""

    seed: int = Field(0, ge=0)
    device: str = "auto"
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    strategy: StrategyConfig = FineTuneConfig()
    evaluation: MeasuringConfig = MeasuringConfig()
    tensorboard: bool = False

    def to_yaml(self) -> str:
        """The config as YAML, every default written out."""
        return yaml.safe_dump(self.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True)


class RunConfig(LearningConfig):
    """A whole run that learns facts."""

    data: DataConfig = DataConfig()
    language: LanguageConfig = LanguageConfig()
    tasks: TasksConfig = TasksConfig()
    evaluation: EvaluationConfig = EvaluationConfig()


Schema = TypeVar("Schema", bound=LearningConfig)


def load_config(path: Path | str, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a YAML config and apply overrides such as `training.epochs=3`.

    Raises:
        ConfigError: naming the file and every key that is wrong.
    """
    raw = read_config(path)
    apply_overrides(raw, overrides)
    return parse_config(raw, str(path))


def read_config(path: Path | str) -> dict[str, Any]:
    """The plain values of a YAML config, not yet checked."""
    path = Path(path)
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"The config {path} does not exist; the project's own are in configs/.") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"The config {path} is not readable YAML: {_one_line(error)}.") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"The config {path} holds no keys; see configs/ for examples.")
    return raw


def apply_overrides(raw: dict[str, Any], overrides: Sequence[str]) -> None:
    """Set keys such as `training.epochs=3` in plain values."""
    for override in overrides:
        _apply(raw, override)


def parse_config(raw: dict[str, Any], where: str) -> RunConfig:
    """Check plain values against the schema of a run that learns facts."""
    return parse_as(RunConfig, raw, where)


def parse_as(schema: type[Schema], raw: dict[str, Any], where: str) -> Schema:
    """Check plain values against a schema."""
    try:
        return schema.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(f"The config {where} is not valid: {_problems(error, schema)}.") from None


def _apply(raw: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"--set takes KEY=VALUE such as training.epochs=3, not {override!r}.")
    section: Any = raw
    for part in parts[:-1]:
        section = section.setdefault(part, {}) if isinstance(section, dict) else None
    if not isinstance(section, dict):
        raise ConfigError(f"--set {override}: {'.'.join(parts[:-1])} is a value, not a section.")
    try:
        section[parts[-1]] = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {override}: the value is not readable YAML: {_one_line(error)}.") from None


def _problems(error: ValidationError, schema: type[LearningConfig]) -> str:
    import difflib

    lines = []
    for problem in error.errors(include_url=False):
        place = [str(part) for part in problem["loc"]]
        key = ".".join(place) or "the whole"
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            close = difflib.get_close_matches(place[-1], _keys(schema, place[:-1]), n=1)
            message = "unknown key" + (f", did you mean {close[0]}?" if close else "")
        lines.append(f"{key}: {message[:1].lower() + message[1:]}")
    return "; ".join(lines)


def _keys(schema: type[LearningConfig], place: list[str]) -> list[str]:
    """The keys a section of the config may have; a method's section is found by the method's name."""
    model: Any = schema
    for part in place:
        field = model.model_fields.get(part)
        annotation = CONFIGS.get(part) or (field.annotation if field else None)
        model = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else Section
    return [field.alias or name for name, field in model.model_fields.items()]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
