"""Every lifelong method's settings, checked without loading torch.

Each default of `lambda` is the value the paper or the method's own authors use on classifiers, where there
is one; for facts the paper uses 5 for MAS. The right value depends on the scale of the importance, hence on
the network.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from factlearn.errors import FactError
from factlearn.facts import FactQuery


class Section(BaseModel):
    """A part of a config; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


def _source(value: Any) -> Any:
    """A word, a folder, or facts; a word that is neither of the three nor a folder is a slip of the pen."""
    if isinstance(value, list | tuple):
        for fact in value:
            try:
                FactQuery.parse(str(fact))
            except FactError as error:
                raise ValueError(str(error)) from error
        return tuple(str(fact) for fact in value)
    if not isinstance(value, str | Path) or value in ("train", "test", "both"):
        return value
    folder = Path(value).expanduser()
    if not folder.is_absolute() and not folder.is_dir():
        raise ValueError(f"{str(value)!r} is none of train, test and both, and no folder; or list facts")
    return folder.resolve()


Source = Annotated[
    Literal["train", "test", "both"] | Path | tuple[str, ...],
    Field(union_mode="left_to_right"),
    BeforeValidator(_source),
]
"""Images to measure importance on: the task's training images, its test images, both, those in a folder, or
those of facts or patterns such as `<person, *, tennis>`."""


def _by_task(value: Any) -> Any:
    return value if isinstance(value, dict) else _source(value)


class FineTuneConfig(Section):
    """Learn each task in turn and do nothing about forgetting."""

    name: Literal["finetune"] = "finetune"


class JointConfig(Section):
    """Learn all tasks at once: the reference that lifelong learning cannot pass."""

    name: Literal["joint"] = "joint"


class PenaltyConfig(Section):
    """What the methods with a quadratic penalty (eq. 3) share."""

    lambda_: float = Field(1.0, ge=0, alias="lambda", allow_inf_nan=False)
    """How firmly important parameters are held."""
    penalty: Literal["proximal", "gradient"] = "proximal"
    """`proximal` is stable at any lambda, `gradient` is what other implementations do (docs/methods.md)."""


class ImportanceConfig(PenaltyConfig):
    """What the methods that measure importance on images share."""

    importance: Annotated[Source | dict[str, Source], BeforeValidator(_by_task)] = "train"
    """Where importance is measured, for all tasks or by task name (a task not named: train)."""
    floor: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Importance that every parameter gets beside its own, in units of the mean; 0 is the paper's method."""

    def importance_of(self, task: str) -> Any:
        """Where the importance of one task is measured."""
        return self.importance.get(task, "train") if isinstance(self.importance, dict) else self.importance


class MASConfig(ImportanceConfig):
    """Memory Aware Synapses, global form."""

    name: Literal["mas"] = "mas"
    lambda_: float = Field(5.0, ge=0, alias="lambda", allow_inf_nan=False)


class LocalMASConfig(ImportanceConfig):
    """Memory Aware Synapses, local form: each layer by itself."""

    name: Literal["l-mas"] = "l-mas"


class VectorMASConfig(ImportanceConfig):
    """Memory Aware Synapses with every output's own gradient: as many passes as outputs."""

    name: Literal["mas-vector"] = "mas-vector"


class EWCConfig(ImportanceConfig):
    """Elastic Weight Consolidation."""

    name: Literal["ewc"] = "ewc"
    lambda_: float = Field(100.0, ge=0, alias="lambda", allow_inf_nan=False)
    labels: Literal["true", "sampled", "empirical"] = "sampled"
    """Of the Fisher: the network's own distribution (a pass an output), one draw from it, or the targets."""
    penalties: Literal["running", "separate"] = "running"
    """One penalty around the last solution, or each task's Fisher around its own."""

    @model_validator(mode="after")
    def _targets_known(self) -> "EWCConfig":
        if self.labels == "empirical" and self.importance != "train":
            raise ValueError("labels: the empirical Fisher needs training targets; set importance to train")
        return self


class SIConfig(PenaltyConfig):
    """Synaptic Intelligence."""

    name: Literal["si"] = "si"
    damping: float = Field(0.1, gt=0)
    """Xi: keeps the importance of parameters that hardly moved finite."""


class LwFConfig(Section):
    """Learning without Forgetting."""

    name: Literal["lwf"] = "lwf"
    lambda_: float = Field(1.0, ge=0, alias="lambda", allow_inf_nan=False)
    """Weight of the distillation."""
    temperature: float = Field(2.0, gt=0)
    """Softens class scores; an embedding is distilled as it is."""
    warmup_epochs: int = Field(5, ge=0)
    """How long a new head learns alone, where tasks have heads of their own."""


class EBLLConfig(LwFConfig):
    """Encoder Based Lifelong Learning: LwF and a code of the features."""

    name: Literal["ebll"] = "ebll"  # type: ignore[assignment]
    code_lambda: float = Field(0.01, ge=0, allow_inf_nan=False)
    """Weight of each task's code."""
    code_size: int = Field(100, ge=1)
    autoencoder_epochs: int = Field(30, ge=1)


class MeanIMMConfig(PenaltyConfig):
    """Incremental Moment Matching: the mean of all solutions, after the last task."""

    name: Literal["imm-mean"] = "imm-mean"
    lambda_: float = Field(0.01, ge=0, alias="lambda", allow_inf_nan=False)


class ModeIMMConfig(PenaltyConfig):
    """Incremental Moment Matching: solutions weighed by their Fisher information."""

    name: Literal["imm-mode"] = "imm-mode"
    lambda_: float = Field(0.01, ge=0, alias="lambda", allow_inf_nan=False)
    labels: Literal["true", "sampled", "empirical"] = "sampled"


class RidgeConfig(Section):
    """Ridge regression of the outputs on features that never change, in closed form; for facts only."""

    name: Literal["ridge"] = "ridge"
    shrinkage: float = Field(0.2, gt=0, allow_inf_nan=False)
    """How strongly weights are drawn to zero, in units of the features' mean squared length."""


StrategyConfig = Annotated[
    FineTuneConfig
    | JointConfig
    | MASConfig
    | LocalMASConfig
    | VectorMASConfig
    | EWCConfig
    | SIConfig
    | LwFConfig
    | EBLLConfig
    | MeanIMMConfig
    | ModeIMMConfig
    | RidgeConfig,
    Field(discriminator="name"),
]

CONFIGS: dict[str, type[Section]] = {
    "finetune": FineTuneConfig,
    "joint": JointConfig,
    "mas": MASConfig,
    "l-mas": LocalMASConfig,
    "mas-vector": VectorMASConfig,
    "ewc": EWCConfig,
    "si": SIConfig,
    "lwf": LwFConfig,
    "ebll": EBLLConfig,
    "imm-mean": MeanIMMConfig,
    "imm-mode": ModeIMMConfig,
    "ridge": RidgeConfig,
}
"""Every method by its name in a config."""
